// A link that a tool hands out, opened in headless Chromium: by nginx, which takes a prefix off,
// from a page of another origin, where nobody has a token, a session or a cookie.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express, { type RequestHandler } from 'express'
import { readFile } from 'node:fs/promises'
import { type Browser, type Download, type Page as Tab } from 'playwright-core'
import { mcpStreams, type LinkOptions, type ResourceLink } from '../../../lib/index.js'
import { type Resource, resources, type ResourcesOptions } from '../../../lib/resources/index.js'
import { connectV1 } from '../../helpers/clients.js'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { testBytes } from '../../features/resources/setup.js'
import { programs, startNginx, PREFIX } from '../proxies/configurations.js'
import { describeInBrowser, launch } from './chromium.js'

const BYTES = testBytes(2_000_000)
const NAME = 'Bericht für März.pdf'

const hasNginx = programs.nginx !== undefined || Boolean(process.env['CI'])

const describeHere = hasNginx ? describeInBrowser : describe.skip

describeHere('a link (needs chromium and nginx; SKIPPED without them, but not in CI)', () => {
  let browser: Browser

  beforeAll(async () => void (browser = await launch()))

  afterAll(() => browser.close())

  it.each([
    ['relative to the endpoint', false],
    ['made from publicUrl', true]
  ])('for anyone brings the file under its name: %s', async (_how, isPublic) => {
    const { tab, url, back, link } = await open({ anyone: true, filename: NAME }, isPublic)
    expect(link).toMatchObject({ type: 'resource_link', name: NAME, mimeType: 'application/pdf' })
    expect(link.uri.startsWith(isPublic ? `${url}?download=` : '?download=')).toBe(true)

    const file = await downloadOf(tab, new URL(link.uri, url).href)
    expect(file.suggestedFilename()).toBe(NAME)
    expect(BYTES.equals(await readFile(await file.path()))).toBe(true)

    const { method, url: asked, headers, status } = back.passages.findLast(ofLink)!
    expect([method, asked, status]).toEqual(['GET', `/mcp${new URL(link.uri, url).search}`, 200])
    for (const name of ['authorization', 'cookie', 'mcp-session-id'])
      expect(headers[name]).toBeUndefined()
  })

  it('for anyone brings the file again to who clicks twice', async () => {
    const { tab, url, link, back } = await open({ anyone: true })
    const href = new URL(link.uri, url).href
    for (let i = 0; i < 2; i++) {
      const file = await downloadOf(tab, href)
      expect(BYTES.equals(await readFile(await file.path()))).toBe(true)
    }
    expect(back.passages.filter(ofLink).map(({ status }) => status)).toEqual([200, 200])
  })

  it('for anyone is played by a media element, which seeks, and begins again', async () => {
    const sound = { body: wave(40_000_000), mimeType: 'audio/wav' }
    const { tab, url, link, back } = await open({ anyone: true }, false, sound)
    const href = JSON.stringify(new URL(link.uri, url).href)
    const played = await tab.evaluate(`(async () => {
      const positions = []
      for (let i = 0; i < 2; i++) {
        const audio = new Audio(${href})
        const heard = name => new Promise((resolve, reject) => {
          audio.addEventListener(name, resolve, { once: true })
          audio.addEventListener('error', () => reject(new Error(audio.error.message)), { once: true })
        })
        await heard('loadedmetadata')
        for (const time of [audio.duration - 5, 1]) {
          const seeked = heard('seeked')
          audio.currentTime = time
          await seeked
          positions.push(Math.round(audio.currentTime))
        }
      }
      return positions
    })()`)
    expect(played).toEqual([4995, 1, 4995, 1])
    // One that the element has given up may have no answer yet.
    const statuses = back.passages.filter(ofLink).flatMap(({ status }) => status ?? [])
    expect(statuses.length).toBeGreaterThan(1)
    expect(new Set(statuses)).toEqual(new Set([206]))
  })

  it.each(['front', 'back'] as const)(
    'for anyone brings the file whole where the wire at the %s of nginx is cut',
    async side => {
      const { tab, link, ...wires } = await open({ anyone: true })
      const wire = wires[side]
      wire.plan = passage =>
        ofLink(passage) && wire.cuts.length === 0 ? { by: 'fin', afterBytes: 700_000 } : undefined
      const file = await downloadOf(tab, new URL(link.uri, wires.url).href)
      expect(BYTES.equals(await readFile(await file.path()))).toBe(true)
      // Chromium has come back by itself, to the same link.
      const passages = wire.passages.filter(ofLink)
      expect(passages.map(({ status }) => status)).toEqual([200, 206])
      expect(passages[1]!.headers).toMatchObject({
        range: expect.stringMatching(/^bytes=\d+-$/),
        'if-range': expect.any(String)
      })
    }
  )

  it('for its owner brings nothing to a browser that does not say who it is', async () => {
    const { tab, url, link } = await open({})
    const href = new URL(link.uri, url).href
    const refused = (await tab.goto(href))!
    expect([refused.status(), (await refused.json()).error.data.reason]).toEqual([
      404,
      'download-unknown'
    ])
    const headers = { authorization: 'Bearer alice' }
    const owners = await fetch(href, { headers })
    expect(BYTES.equals(Buffer.from(await owners.arrayBuffer()))).toBe(true)
  })

  /** A tool behind nginx has been called by an official client, and a page elsewhere is open. */
  async function open(
    options: LinkOptions,
    isPublic = false,
    resource: Resource = { body: BYTES }
  ) {
    const app = express()
    const { port } = await listen(app)
    const back = await createCutProxy({ target: port })
    const nginx = await startNginx(back.port)
    const front = await createCutProxy({ target: nginx.port })
    const url = `${front.url}${PREFIX}/mcp`

    const provider: ResourcesOptions = { open: () => resource }
    const streams = mcpStreams({
      resources: resources(isPublic ? { ...provider, publicUrl: url } : provider)
    })
    closeLater(() => streams.close({ drain: 0 }))
    // As the page on security has it.
    app.use(
      '/mcp',
      (req, res, next) =>
        req.method === 'GET' && !req.headers.authorization ? next() : void bearer(req, res, next),
      streams
    )
    app.all('/mcp', bearer, express.json(), async (req, res) => {
      const server = new McpServer({ name: 'spec', version: '1.0.0' })
      server.registerTool('report', {}, async () => ({
        content: [streams.link('db:reports/7.pdf', options)]
      }))
      const transport = new StreamableHTTPServerTransport({})
      res.on('close', () => void server.close())
      await server.connect(transport as Parameters<McpServer['connect']>[0])
      await transport.handleRequest(req, res, req.body)
    })

    const { client } = await connectV1(url, { headers: { Authorization: 'Bearer alice' } })
    const { content } = (await client.callTool({ name: 'report' })) as { content: ResourceLink[] }
    const { url: origin } = await listen((_req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/html' })
      res.end('<!doctype html><link rel="icon" href="data:,"><a id="link">download</a>')
    })
    const context = await browser.newContext({ acceptDownloads: true })
    closeLater(() => context.close())
    const tab = await context.newPage()
    await tab.goto(origin)
    return { tab, url, front, back, link: content[0]! }
  }
})

const ofLink = ({ url }: { url: string }): boolean => url.includes('download=')

async function downloadOf(tab: Tab, href: string): Promise<Download> {
  const download = tab.waitForEvent('download')
  await tab.evaluate(`document.querySelector('#link').href = ${JSON.stringify(href)}`)
  await tab.click('#link')
  return download
}

/** Silence: one channel, 8,000 samples of one byte a second. */
function wave(size: number): Buffer {
  const head = Buffer.alloc(44)
  head.write('RIFF', 0)
  head.writeUInt32LE(36 + size, 4)
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(8000, 24)
  head.writeUInt32LE(8000, 28)
  head.writeUInt16LE(1, 32)
  head.writeUInt16LE(8, 34)
  head.write('data', 36)
  head.writeUInt32LE(size, 40)
  return Buffer.concat([head, Buffer.alloc(size, 128)])
}

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
