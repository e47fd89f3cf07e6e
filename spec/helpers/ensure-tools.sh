#!/bin/sh
# Installs what the specs drive and npm does not have: Debian's Chromium, nginx, HAProxy and Redis. Without one of them its specs
# are skipped, but not in CI. Nothing is started.
PATH="$PATH:/usr/sbin:/usr/local/sbin"

# <variable that may name it> <names of the program...>
found() {
  if [ -n "$(eval "printf %s \"\${$1:-}\"")" ]; then return 0; fi
  shift
  for name in "$@"; do
    if command -v "$name" > /dev/null; then return 0; fi
  done
  return 1
}
has_chromium() { found CHROMIUM chromium chromium-browser google-chrome; }
has_nginx() { found NGINX nginx; }
has_haproxy() { found HAPROXY haproxy; }
has_redis() { found REDIS_SERVER redis-server valkey-server; }
has_valkey() { found VALKEY_SERVER valkey-server; }

missing=''
has_chromium || missing="$missing chromium"
has_nginx || missing="$missing nginx"
has_haproxy || missing="$missing haproxy"
has_redis || missing="$missing redis-server"
# Only newer releases have it: nothing is looked for anew each time.
if ! has_valkey && apt-cache show valkey-server > /dev/null 2>&1; then missing="$missing valkey-server"; fi
# Not in CI either: it may be a release that has none.
mention_valkey() {
  has_valkey || echo "SKIPPED: Valkey in spec/e2e/redis/contract.spec.ts. It needs Valkey: install it, or name the program in VALKEY_SERVER." >&2
}
if [ -z "$missing" ]; then
  mention_valkey
  exit 0
fi

# Debian starts a service as soon as it is installed, unless this file says no.
policy=/usr/sbin/policy-rc.d
install_quietly() {
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy"
  fi
  timeout 120 apt-get update -qq
  # One by one: what can be had is installed.
  for package in $missing; do
    DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -qq --no-install-recommends "$package" < /dev/null
  done
}

if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then install_quietly > /dev/null 2>&1; fi

status=0
# <specs> <what they need> <variable that may name it>
complain() {
  if [ -n "$CI" ]; then
    echo "No $2, and none could be installed: $1 cannot run." >&2
    status=1
  else
    echo "SKIPPED: $1. It needs $2: install it, or name the program in $3." >&2
  fi
}
has_chromium || complain "what the specs do in a browser" Chromium CHROMIUM
has_nginx || complain spec/e2e/proxies/nginx.spec.ts nginx NGINX
has_haproxy || complain spec/e2e/proxies/haproxy.spec.ts HAProxy HAPROXY
has_redis || complain spec/e2e/redis "a Redis server" REDIS_SERVER
mention_valkey
exit "$status"
