// The inspector as an operator uses it, in headless Chromium.

import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { open, type Opened, type Setup } from '../../features/inspector/setup.js'
import { until } from '../../helpers/happenings.js'
import { closeLater } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, post } from '../../helpers/mcp.js'
import { streamUrl } from '../../helpers/serve.js'
import { describeInBrowser, launch } from './chromium.js'

const headers = headersFor({ version: '2025-11-25', auth: 'alice' })

describeInBrowser('the inspector (needs chromium; SKIPPED without it, but not in CI)', () => {
  let browser: Browser

  beforeAll(async () => void (browser = await launch()))

  afterAll(() => browser.close())

  /** The page, and what it has complained of. */
  async function look(
    setup: Setup = {},
    options: BrowserContextOptions = {}
  ): Promise<Opened & { tab: Page; faults: string[] }> {
    const opened = await open(setup)
    const context = await browser.newContext(options)
    closeLater(() => context.close())
    const tab = await context.newPage()
    const faults: string[] = []
    tab.on('console', message => message.type() === 'error' && faults.push(message.text()))
    tab.on('pageerror', error => faults.push(error.message))
    await tab.goto(opened.page)
    await tab.getByText('Live', { exact: true }).waitFor()
    return { ...opened, tab, faults }
  }

  const figure = (tab: Page, name: string) =>
    tab.locator('#saved > div', { hasText: name }).locator('.figure')

  it('shows a call from its beginning to its end, without a complaint of the browser', async () => {
    const { tab, url, endpoint, faults } = await look()
    const response = await post(url, callTool(1, 'report'), headers)
    const row = tab.locator('#streams tr')
    await row.filter({ hasText: 'running' }).filter({ hasText: 'there' }).waitFor()
    endpoint.calls[0]!.emit({ data: 'x'.repeat(3000) })
    await row.filter({ hasText: ' KB' }).waitFor()
    response.destroy()
    await row.filter({ hasText: /left .* ago/ }).waitFor()
    await tab.locator('#requests li', { hasText: 'cut after' }).first().waitFor()
    await tab.locator('#requests', { hasText: 'connection lost after event 1' }).waitFor()

    const resumed = await get(streamUrl(response, url), headers)
    await figure(tab, 'resumed after a cut').filter({ hasText: /^1$/ }).waitFor()
    endpoint.calls[0]!.result({})
    await resumed.ended
    await row.filter({ hasText: 'completed' }).waitFor()
    await tab.locator('#limits li', { hasText: '1 of 10,000' }).waitFor()
    await tab.locator('#chart polyline').first().waitFor({ state: 'attached' })
    expect(await tab.locator('#streams tr').count()).toBe(1)
    expect(faults).toEqual([])
    const shown = await tab.locator('body').textContent()
    expect(shown).not.toContain('alice')
  })

  it('says of what is not used that it is at 0, and of a chart with one point that it has one', async () => {
    const { tab, url } = await look()
    await tab.getByText(/^One point so far, the next in five seconds: since /).waitFor()
    expect(await tab.locator('#limits li').count()).toBe(0)
    const unused = tab.locator('#unused')
    expect(await unused.textContent()).toMatch(/^At 0: Streams \(maxStreams\), Events and answers/)
    await post(url, callTool(1, 'report'), headers)
    await tab.locator('#limits li', { hasText: '1 of 10,000' }).waitFor()
    expect(await unused.textContent()).not.toContain('maxStreams')
    await tab.getByText(/^Drawn while this page is open: since /).waitFor()
  })

  it('cuts a connection from the keyboard alone, and the client comes back', async () => {
    const { tab, url, endpoint } = await look({ inspecting: { actions: true } })
    const response = await post(url, callTool(1, 'report'), headers)
    await tab.getByRole('button', { name: /^Cut this connection: [0-9a-f]{8}$/ }).waitFor()
    const focused = () => tab.evaluate('document.activeElement.textContent')
    for (let i = 0; i < 10 && (await focused()) !== 'Cut'; i++) await tab.keyboard.press('Tab')
    await tab.keyboard.press('Enter')
    expect(await response.ended).not.toBe('end')
    await tab.getByText(/^Cut: the connection of [0-9a-f]{8}\. Its client comes back\.$/).waitFor()
    await tab.locator('#requests', { hasText: 'an operator has asked for it' }).waitFor()
    const resumed = await get(streamUrl(response, url), headers)
    endpoint.calls[0]!.result({ done: true })
    await resumed.ended
    expect(resumed.messages().at(-1)).toMatchObject({ result: { done: true } })
    await figure(tab, 'resumed after a cut').filter({ hasText: /^1$/ }).waitFor()
  })

  it('has no button without the option', async () => {
    const { tab, url } = await look()
    await post(url, callTool(1, 'report'), headers)
    await tab.locator('#streams tr').waitFor()
    expect(await tab.locator('#streams button').count()).toBe(0)
  })

  it('leads the keyboard to what scrolls, in the order of the page', async () => {
    const { tab, url } = await look({ script: ({ result }) => result({}) })
    for (let id = 1; id <= 40; id++) await ended(post(url, callTool(id, 'report'), headers))
    await tab.locator('#requests > li').nth(39).waitFor()
    const seen: unknown[] = []
    for (let i = 0; i < 3; i++) {
      await tab.keyboard.press('Tab')
      seen.push(
        await tab.evaluate(
          'document.activeElement.id || document.activeElement.getAttribute("aria-labelledby")'
        )
      )
    }
    expect(seen).toEqual(['pause', 'streams-title', 'requests'])
    await tab.keyboard.press('End')
    // The page lets nobody evaluate strings in it again and again.
    const scrolled = 'document.getElementById("requests").scrollTop'
    await until(async () => (await tab.evaluate<number>(scrolled)) > 0)
  })

  it('stands still while it is paused, and costs nothing then', async () => {
    const { tab, url, streams } = await look()
    const pause = tab.getByRole('button', { name: 'Pause' })
    await pause.focus()
    await tab.keyboard.press('Space')
    await tab.getByText('Paused', { exact: true }).waitFor()
    expect(await pause.getAttribute('aria-pressed')).toBe('true')
    await post(url, callTool(1, 'report'), headers)
    expect(streams.stats().live).toBe(1)
    expect(await tab.locator('#streams tr').count()).toBe(0)
    await tab.keyboard.press('Space')
    await tab.locator('#streams tr').waitFor()
  })

  it('comes back when the server does', async () => {
    const { tab, server } = await look()
    server.closeAllConnections()
    await tab.getByText('No connection, trying again').waitFor()
    await tab.getByText('Live', { exact: true }).waitFor()
  })

  it('is light or dark, as its reader prefers, and readable in both', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const { tab, url } = await look({ inspecting: { actions: true } }, { colorScheme })
      await post(url, callTool(1, 'report'), headers)
      await tab.getByRole('button', { name: /^Cut/ }).waitFor()
      const colors = await tab.evaluate<[name: string, text: string, page: string][]>(`
        ['p.soft', 'h1', '#link', '.figure', 'td.client', 'td button', '#requests .outcome', 'th']
          .map(name => document.querySelector(name))
          .map(element => {
            let behind = element
            while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)')
              behind = behind.parentElement
            return [element.tagName, getComputedStyle(element).color,
              getComputedStyle(behind).backgroundColor]
          })`)
      for (const [name, text, page] of colors)
        expect([colorScheme, name, contrast(text, page) >= 4.5]).toEqual([colorScheme, name, true])
      const [, , page] = colors[1]!
      expect(luminance(page) < 0.1).toBe(colorScheme === 'dark')
    }
  })

  it.each([380, 820, 1180])('fits into %d pixels', async width => {
    const { tab, url } = await look(
      { inspecting: { actions: true } },
      { viewport: { width, height: 800 } }
    )
    const long = 'a-tool-with-a-name-that-goes-on-and-on-'.repeat(4)
    await post(url, callTool(1, long), headers)
    await tab.getByRole('button', { name: /^Cut/ }).waitFor()
    await tab.locator('#requests', { hasText: 'answers tools/call' }).waitFor()
    expect(await tab.evaluate('document.documentElement.scrollWidth')).toBe(width)
    const button = await tab.getByRole('button', { name: /^Cut/ }).boundingBox()
    expect(button!.x + button!.width).toBeLessThanOrEqual(width)
  })
})

/** Of a color as browsers compute it, from 0 to 1. */
function luminance(color: string): number {
  const [red, green, blue] = color
    .match(/\d+/g)!
    .map(part => Number(part) / 255)
    .map(part => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!
}

function contrast(one: string, other: string): number {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b)
  return (light! + 0.05) / (dark! + 0.05)
}
