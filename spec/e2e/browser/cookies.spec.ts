// Headless Chromium with nothing of ours in the page: its own EventSource and its own downloads,
// behind the SDK's bearer auth, by cookie.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js'
import express, { type RequestHandler } from 'express'
import { readFile } from 'node:fs/promises'
import { type Browser, type Page as Tab } from 'playwright-core'
import { ownerCookie } from '../../../lib/features/cookie/index.js'
import { resources } from '../../../lib/resources/index.js'
import { mcpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { createCutProxy, type CutProxy, type Passage } from '../../helpers/cut-proxy.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, notification, request } from '../../helpers/mcp.js'
import { testBytes } from '../../features/resources/setup.js'
import { describeInBrowser, launch } from './chromium.js'

const RETRY = 300
const NEWS = 6
const CUTS = 3
const BYTES = testBytes(300_000)
const PAGE = `<!doctype html><link rel="icon" href="data:,"><script>
  const events = [], states = []
  const post = (message, accept) => fetch('/mcp', { method: 'POST', body: JSON.stringify(message), headers: {
    Authorization: 'Bearer alice', 'Content-Type': 'application/json', 'MCP-Protocol-Version': '2025-11-25',
    Accept: 'application/json, text/event-stream' } })
  async function linkOf(message) {
    const response = await post(message)
    await response.body.cancel()
    return response.url + /<([^>]+)>/.exec(response.headers.get('Link'))[1]
  }
  function follow(url, options) {
    const source = new EventSource(url, options)
    source.onmessage = ({ data }) => data && events.push(JSON.parse(data))
    source.onerror = () => states.push(source.readyState)
  }
</script><a id="link">download</a>`

interface Seen {
  events: { id?: number; params?: { data: number } }[]
  states: number[]
}

describeInBrowser('in a browser (needs chromium; SKIPPED without it, but not in CI)', () => {
  let browser: Browser

  beforeAll(async () => void (browser = await launch()))

  afterAll(() => browser.close())

  describe('EventSource', () => {
    it.each(['fin', 'rst'] as const)(
      'comes back by itself after every cut by %s, in its time, and stops at the end',
      async by => {
        const { tab, proxy, endpoint } = await open()
        const cutAt: number[] = []
        const cameAt: number[] = []
        const ofStream = ({ url }: Passage) => url.includes('stream=')
        proxy.on('request', passage => ofStream(passage) && cameAt.push(performance.now()))
        await follow(tab, callTool(7, 'slow'))
        const call = await endpoint.calls.nth(1)
        for (let n = 1; n <= NEWS; n++) {
          call.emit(notification('notifications/message', { level: 'info', data: n }))
          if (n > CUTS) continue
          // With a cut the browser discards what it has not read yet.
          await tab.waitForFunction(`events.length === ${n}`)
          cutAt.push(performance.now())
          proxy.cutNow(by)
          await until(() => cameAt.length === n + 1)
        }
        call.result({ content: [] })

        await tab.waitForFunction('states.at(-1) === 2')
        const { events, states } = await seen(tab)
        expect(events.map(({ params, id }) => params?.data ?? `result of ${id}`)).toEqual([
          1,
          2,
          3,
          4,
          5,
          6,
          'result of 7'
        ])
        expect(states.slice(0, -1)).toEqual(states.slice(0, -1).map(() => 0))

        const passages = proxy.passages.filter(ofStream)
        expect(passages.map(({ status }) => status)).toEqual([200, 200, 200, 200, 204])
        expect(passages.every(({ headers }) => headers['authorization'] === undefined)).toBe(true)
        const ids = passages.map(({ headers }) => headers['last-event-id'])
        expect(ids[0]).toBeUndefined()
        expect(new Set(ids).size).toBe(5)
        expect(cutAt.map((at, i) => cameAt[i + 1]! - at >= RETRY * 0.9)).toEqual([true, true, true])
        expect(endpoint.calls).toHaveLength(1)
      }
    )

    it('follows a stream that lives, and hides the cookie from scripts', async () => {
      const { tab, endpoint } = await open()
      await follow(tab, callTool(7, 'slow'))
      const call = await endpoint.calls.nth(1)
      for (let n = 1; n <= 3; n++) {
        call.emit(notification('notifications/message', { level: 'info', data: n }))
        await tab.waitForFunction(`events.length === ${n}`)
      }
      expect(await tab.evaluate('document.cookie')).toBe('')
      expect(await tab.context().cookies()).toEqual([
        expect.objectContaining({
          name: 'mcp-streams',
          path: '/mcp',
          httpOnly: true,
          sameSite: 'Strict',
          expires: -1
        })
      ])
    })

    it('is refused without the option', async () => {
      const { tab } = await open({ cookie: undefined })
      await follow(tab, callTool(7, 'slow'))
      await tab.waitForFunction('states.length === 1')
      expect(await seen(tab)).toEqual({ events: [], states: [2] })
    })

    it('gets nothing for a page of another site, whoever lets it', async () => {
      const { tab, proxy } = await open({ allowedOrigins: ['*'] })
      const link = await tab.evaluate<string>(`linkOf(${JSON.stringify(callTool(7, 'slow'))})`)
      // 127.0.0.1 and localhost are two sites.
      await tab.goto(proxy.url.replace('127.0.0.1', 'localhost'))
      await tab.evaluate(`follow(${JSON.stringify(link)}, { withCredentials: true })`)
      await tab.waitForFunction('states.length === 1')
      expect(await seen(tab)).toEqual({ events: [], states: [2] })
      const asked = proxy.passages.findLast(({ url }) => url.includes('stream='))!
      expect([
        asked.headers['origin']?.includes('localhost'),
        asked.headers['cookie'],
        asked.status
      ]).toEqual([true, undefined, 404])
    })
  })

  describe('a link to a download URL', () => {
    it('brings the file', async () => {
      const { tab, proxy } = await open()
      const download = tab.waitForEvent('download')
      await clickDownload(tab)
      const file = await download
      expect(file.suggestedFilename()).toBe('report.bin')
      expect(BYTES.equals(await readFile(await file.path()))).toBe(true)
      expect(proxy.passages.at(-1)).toMatchObject({ method: 'GET', status: 200 })
      expect(proxy.passages.at(-1)!.headers['authorization']).toBeUndefined()
    })

    it('is refused without the option', async () => {
      const { tab, proxy } = await open({ cookie: undefined })
      await clickDownload(tab)
      await until(
        () =>
          proxy.passages.at(-1)!.url.includes('download=') &&
          proxy.passages.at(-1)!.status !== undefined
      )
      expect(proxy.passages.at(-1)!.status).toBe(404)
    })
  })

  /**
   * A page and its MCP endpoint on one origin, by way of the cut proxy, mounted as the README has
   * it.
   */
  async function open(
    options: McpStreamsOptions = {}
  ): Promise<{ tab: Tab; proxy: CutProxy; endpoint: RawEndpoint }> {
    const app = express()
    const { port } = await listen(app)
    const proxy = await createCutProxy({ target: port })
    const endpoint = rawEndpoint(answer)
    closeLater(() => endpoint.requests.forEach(({ res }) => res.destroy()))
    const streams = mcpStreams({
      cookie: ownerCookie({ secret: ['a new secret of ours', 'the secret before it'] }),
      retry: RETRY,
      resumeInterval: { min: 0 },
      resources: resources({
        open: () => ({ body: BYTES, name: 'report.bin', mimeType: 'application/octet-stream' }),
        mode: 'download',
        publicUrl: `${proxy.url}/mcp`
      }),
      ...options
    })
    closeLater(() => streams.close({ drain: 0 }))
    app.get('/', (_req, res) => void res.type('html').send(PAGE))
    app.use('/mcp', (req, res, next) => {
      res.set({
        'Access-Control-Allow-Origin': req.headers.origin ?? '*',
        'Access-Control-Allow-Credentials': 'true'
      })
      next()
    })
    app.use(
      '/mcp',
      (req, res, next) =>
        req.method === 'GET' && !req.headers.authorization ? next() : void bearer(req, res, next),
      streams
    )
    app.all('/mcp', bearer, endpoint)
    const context = await browser.newContext({ acceptDownloads: true })
    closeLater(() => context.close())
    const tab = await context.newPage()
    await tab.goto(proxy.url)
    return { tab, proxy, endpoint }
  }
})

const bearer = requireBearerAuth({
  verifier: {
    verifyAccessToken: async token => ({
      token,
      clientId: 'page',
      scopes: [],
      expiresAt: Date.now() / 1000 + 60,
      extra: { sub: token }
    })
  }
}) as RequestHandler

/** A call is left to the spec; all else is answered in JSON. */
function answer({ message, res, open }: RawCall): void {
  if (message.method === 'tools/call') return open()
  res.setHeader('Content-Type', 'application/json')
  res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result: {} }))
}

const follow = (tab: Tab, message: object): Promise<void> =>
  tab.evaluate(`linkOf(${JSON.stringify(message)}).then(url => follow(url))`)

const seen = (tab: Tab): Promise<Seen> => tab.evaluate('({ events, states })')

function clickDownload(tab: Tab): Promise<void> {
  const meta = {
    'io.modelcontextprotocol/clientCapabilities': { resourceStreaming: {} }
  }
  const asked = request(1, 'resources/stream', { uri: 'files:///report.bin', _meta: meta })
  return tab.evaluate(`post(${JSON.stringify(asked)}).then(answer => answer.json()).then(({ result }) => {
    document.querySelector('#link').href = result.downloadUrl
    document.querySelector('#link').click()
  })`)
}
