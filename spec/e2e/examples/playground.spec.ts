// The playground as its visitor uses it: headless Chromium presses its buttons, and the side
// without the middleware loses what the other keeps.

import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { readFile } from 'node:fs/promises'
import { type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { BYTES } from '../../../examples/playground/measurements.js'
import { play } from './playground.js'
import { describeInBrowser, launch } from '../browser/chromium.js'

// Pages of one browser, all at once: some 15 s each where nothing else runs.

describeInBrowser(
  'the playground in a browser (needs chromium; SKIPPED without it, but not in CI)',
  () => {
    let browser: Browser
    beforeAll(async () => void (browser = await launch()))
    afterAll(() => browser.close())

    /**
     * A tab on the page of a playground of its own, because a cut is for all who play, and the specs
     * mostly wait, all at once. What it complains of must be nothing, but for the connections that were cut.
     */
    async function withPage(
      work: (page: Page) => Promise<void>,
      options: BrowserContextOptions = {}
    ): Promise<void> {
      const playground = await play()
      const context = await browser.newContext(options)
      const faults: string[] = []
      try {
        const page = await context.newPage()
        page.on('pageerror', error => faults.push(String(error)))
        page.on('console', message => message.type() === 'error' && faults.push(message.text()))
        await page.goto(playground.url)
        await page.locator('#with h2').waitFor()
        await work(page)
        const isCut = (await page.locator('#news').innerText()).includes('Connections cut')
        expect(
          faults.filter(fault => !isCut || !/^Failed to load resource: net::ERR_\w+$/.test(fault))
        ).toEqual([])
      } finally {
        await context.close()
        await playground.close()
      }
    }

    const ended = (page: Page, side: string, state: string): Promise<void> =>
      page.locator(`#${side}[data-state="${state}"]`).waitFor({ timeout: 500_000 })
    const status = (page: Page, side: string): Promise<string> =>
      page.locator(`#${side} .status`).innerText()
    const log = async (page: Page, side: string): Promise<string[]> =>
      (await page.locator(`#${side} .log li`).allTextContents()).map(line =>
        line.replace(/^ *\S+ s +/, '').replace(/=.{4}…/, '=ID')
      )
    const steps = (page: Page, count: number): Promise<unknown> =>
      Promise.all(
        ['with', 'without'].map(side =>
          page
            .locator(`#${side} circle.event`)
            .nth(count - 1)
            .waitFor()
        )
      )
    const count = (page: Page, selector: string): Promise<number> => page.locator(selector).count()

    it.concurrent(
      'drops what runs when something else is started, and shows two calls that nobody cuts',
      () =>
        withPage(async page => {
          await page.click('#start-question')
          await page.locator('#question').waitFor()
          await page.click('#start-call')
          expect(await page.locator('#question').isHidden()).toBe(true)
          await Promise.all([ended(page, 'with', 'fine'), ended(page, 'without', 'fine')])
          for (const side of ['with', 'without']) {
            expect(await status(page, side)).toBe('✓ 30 pages read, each once and in order')
            expect(await page.locator(`#${side} .received`).innerText()).toBe('30 of 30')
            expect(await count(page, `#${side} circle.event`)).toBe(30)
            expect(await count(page, `#${side} circle.result`)).toBe(1)
            expect(await log(page, side)).toEqual(['POST /mcp tools/call → 200'])
          }
        })
    )

    it.concurrent.each([
      ['FIN', 'error', /^✘ Lost: network error$/],
      ['RST', 'error', /^✘ Lost: network error$/],
      ['silence', 'idle', /^✘ Lost: nothing came for 6 s$/],
      ['outage', 'error', /^✘ Lost: network error$/]
    ])('keeps a call that is cut by %s, and its twin loses it', (kind, reason, loss) =>
      withPage(async page => {
        await page.click('#start-call')
        await steps(page, 5)
        await page.click(`#cut-${kind}`)
        await Promise.all([ended(page, 'with', 'fine'), ended(page, 'without', 'lost')])
        expect(await status(page, 'with')).toBe('✓ 30 pages read, each once and in order')
        expect(await status(page, 'without')).toMatch(loss)
        expect(await count(page, '#without circle.result')).toBe(0)
        expect(await log(page, 'without')).toEqual(['POST /mcp tools/call → 200'])

        const lines = await log(page, 'with')
        expect(lines[0]).toBe('POST /mcp tools/call → 200')
        expect(lines[1]).toMatch(
          new RegExp(`^↻ ${reason}: back in \\d+ ms, goes on after event \\d+$`)
        )
        expect(lines.at(-1)).toMatch(/^GET \/mcp\?stream=ID after \d+ → 200$/)
        for (const side of ['with', 'without'])
          expect(await count(page, `#${side} line.cut`)).toBe(1)
        expect(await count(page, '#with rect.wait')).toBe(
          lines.filter(line => line.startsWith('↻')).length
        )
        expect(await count(page, '#with rect.silent')).toBe(kind === 'silence' ? 1 : 0)
        expect(await page.locator('#with .picture').getAttribute('aria-label')).toMatch(
          /✓ .*; \d connections, 1 cut$/
        )
      })
    )

    it.concurrent(
      'hands a question off, holds nothing while it waits, and is answered from the keyboard alone',
      () =>
        withPage(async page => {
          /** Tab by tab, as somebody without a mouse goes there. */
          const reach = async (id: string): Promise<void> => {
            for (let i = 0; i < 20; i++) {
              await page.keyboard.press('Tab')
              if ((await page.evaluate('document.activeElement.id')) === id) return
            }
            throw new Error(`#${id} cannot be reached`)
          }
          await reach('start-question')
          await page.keyboard.press('Enter')
          await page.locator('#question').waitFor()
          expect(await page.evaluate('document.activeElement.name')).toBe('city')
          await page.locator('#with rect.turn').waitFor()
          await page.locator('#with .held', { hasText: /^0$/ }).waitFor()
          await page.locator('#without .held', { hasText: /^1$/ }).waitFor()
          expect((await log(page, 'with')).at(-1)).toMatch(/^GET \/mcp\?stream=ID after \S+ → 204$/)

          // There is nothing to cut on the one side.
          await reach('cut-RST')
          await page.keyboard.press('Space')
          await ended(page, 'without', 'lost')
          expect(await page.locator('#news').innerText()).toBe(
            'The connection is reset. Connections cut: none with, 1 without.'
          )

          for (let i = 0; i < 3; i++) await page.keyboard.press('Tab')
          expect(await page.evaluate('document.activeElement.name')).toBe('city')
          await page.keyboard.type('Oslo')
          await page.keyboard.press('Tab')
          await page.keyboard.press('ArrowUp')
          await page.keyboard.press('Enter')
          await ended(page, 'with', 'fine')
          expect(await status(page, 'with')).toBe('✓ Booked: 4 nights in Oslo')
          expect((await log(page, 'with')).at(-1)).toMatch(
            /^POST \/mcp\?stream=ID your answer after \S+ → 200$/
          )
          expect(await page.evaluate('document.activeElement.id')).toBe('start-question')
          expect(await page.locator('#question').isHidden()).toBe(true)
          expect(await count(page, '#with rect.turn')).toBe(1)
        })
    )

    it.concurrent('takes the focus from nobody who has gone on, and takes a no for an answer', () =>
      withPage(async page => {
        await page.evaluate(
          "document.getElementById('start-question').click(); document.getElementById('cut-FIN').focus()"
        )
        await page.locator('#question').waitFor()
        expect(await page.evaluate('document.activeElement.id')).toBe('cut-FIN')
        await page.click('#decline')
        await Promise.all([ended(page, 'with', 'fine'), ended(page, 'without', 'fine')])
        for (const side of ['with', 'without'])
          expect(await status(page, side)).toBe('✓ Nothing booked')
      })
    )

    it.concurrent('downloads a file over a wire that is cut, and saves it whole', () =>
      withPage(async page => {
        await page.click('#start-download')
        await page.locator('#with circle.chunk').nth(3).waitFor()
        await page.click('#cut-FIN')
        await Promise.all([ended(page, 'with', 'fine'), ended(page, 'without', 'lost')])
        expect((await log(page, 'with')).at(-1)).toMatch(
          /^POST \/mcp resources\/stream bytes=\d+- → 206$/
        )
        const downloading = page.waitForEvent('download')
        await page.getByText('Save measurements.csv').first().click()
        const download = await downloading
        expect(download.suggestedFilename()).toBe('measurements.csv')
        expect((await readFile(await download.path())).equals(BYTES)).toBe(true)
        expect(await page.locator('#without .file').isHidden()).toBe(true)
      })
    )

    it.concurrent('leads to the inspector of the server with the middleware', () =>
      withPage(async page => {
        const opening = page.waitForEvent('popup')
        await page.getByRole('link', { name: 'inspector' }).click()
        const inspector = await opening
        await inspector.getByText('Live', { exact: true }).waitFor()
        await page.click('#start-call')
        await inspector.locator('#requests', { hasText: 'answers tools/call read' }).waitFor()
        await inspector.locator('#streams button').first().waitFor()
      })
    )

    it.concurrent('fits on a phone', () =>
      withPage(
        async page => {
          await page.click('#start-question')
          await page.locator('#question').waitFor()
          expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(
            true
          )
          const boxes = await Promise.all(
            ['#with', '#without'].map(side => page.locator(side).boundingBox())
          )
          expect(boxes[0]!.x).toBe(boxes[1]!.x)
          // The buttons that cut stay in reach.
          await page.evaluate('scrollTo(0, document.body.scrollHeight)')
          expect((await page.locator('#cut').boundingBox())!.y).toBe(0)
        },
        { viewport: { width: 340, height: 640 } }
      )
    )

    it.concurrent('is light or dark, as its reader prefers', async () => {
      const colours: string[] = []
      for (const colorScheme of ['light', 'dark'] as const)
        await withPage(
          async page => {
            colours.push(
              await page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
            )
          },
          { colorScheme }
        )
      expect(new Set(colours).size).toBe(2)
    })
  }
)
