#!/bin/sh
# Installs what the specs drive and npm does not have: Debian's Chromium. Without it the browser's spec is skipped, but not in CI.
found() {
  command -v chromium || command -v chromium-browser || command -v google-chrome
}

if [ -n "$CHROMIUM" ] || found > /dev/null; then exit 0; fi

if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
fi > /dev/null
if found > /dev/null; then exit 0; fi

if [ -n "$CI" ]; then
  echo 'No Chromium, and none could be installed: spec/client/browser.spec.ts cannot run.' >&2
  exit 1
fi
echo 'SKIPPED: spec/client/browser.spec.ts. It needs a Chromium: install one, or name it in CHROMIUM.' >&2
