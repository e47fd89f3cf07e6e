/* global document */
// Makes picture.png: a slow call that is cut three times, with the middleware and without. Needs a
// Chromium, in CHROMIUM or in the PATH.
//
//   node examples/playground/screenshot.js

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const CUTS = [
  { behind: 4, kind: 'FIN' },
  { behind: 11, kind: 'silence' },
  { behind: 22, kind: 'outage' }
]

const fileOf = name => fileURLToPath(new URL(name, import.meta.url))
const server = spawn(process.execPath, [fileOf('index.js')], {
  stdio: ['ignore', 'pipe', 'inherit']
})
const [line] = await once(server.stdout, 'data')
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--no-proxy-server']
})
try {
  const page = await browser.newPage({ viewport: { width: 1000, height: 800 } })
  await page.goto(/http:\S+/.exec(line)[0])
  // What goes over the wire would make the picture twice as large.
  await page.evaluate(() =>
    document.querySelectorAll('details').forEach(details => (details.open = false))
  )
  await page.click('#start-call')
  for (const { behind, kind } of CUTS) {
    await page
      .locator('#with circle.event')
      .nth(behind - 1)
      .waitFor()
    await page.click(`#cut-${kind}`)
  }
  await page.locator('#with[data-state="fine"]').waitFor()
  await page.mouse.move(0, 0)
  await page.waitForTimeout(600)
  const { y, height } = await page.locator('.legend').boundingBox()
  const clip = { x: 0, y: 0, width: 1000, height: Math.ceil(y + height) + 16 }
  await page.screenshot({ path: fileOf('picture.png'), clip })
} finally {
  await browser.close()
  server.kill()
}
