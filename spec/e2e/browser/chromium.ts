// Headless Chromium: specs that need it are skipped where it is missing, and never in CI.

import { describe, it } from '@jest/globals'
import { chromium, type Browser } from 'playwright-core'
import { find } from '../proxies/daemon.js'

const executable = find('chromium') ?? find('chromium-browser') ?? find('google-chrome')
const isHere = executable !== undefined || Boolean(process.env['CI'])

export const describeInBrowser = isHere ? describe : describe.skip
export const itInBrowser = isHere ? it : it.skip

export const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath: executable ?? 'chromium',
    args: [
      ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--no-proxy-server'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync']
    ]
  })
