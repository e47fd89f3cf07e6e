// `streamResource` in headless Chromium, on a page of another origin that the README's CORS lines
// let in.

import { afterAll, beforeAll, expect, it } from '@jest/globals'
import cors from 'cors'
import { build } from 'esbuild'
import express from 'express'
import { fileURLToPath } from 'node:url'
import { type Browser, type Page as Tab } from 'playwright-core'
import { corsHeaders, mcpStreams } from '../../../lib/index.js'
import { resources } from '../../../lib/resources/index.js'
import { createCutProxy, type Cut, type CutProxy } from '../../helpers/cut-proxy.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { bytesOf, sha256 } from '../../features/client/resource-server.js'
import { V1_STATELESS } from '../../features/client/setups.js'
import { describeInBrowser, launch } from './chromium.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const BYTES = bytesOf(200_000)
let browser: Browser
let script: string

describeInBrowser('in a browser (needs chromium; SKIPPED without it, but not in CI)', () => {
  beforeAll(async () => {
    const { outputFiles } = await build({
      entryPoints: [`${root}/lib/client/index.ts`],
      ...{
        bundle: true,
        platform: 'browser',
        target: 'es2022',
        format: 'esm',
        write: false,
        logLevel: 'silent'
      }
    })
    script = outputFiles[0]!.text
    browser = await launch()
  })
  afterAll(() => browser.close())

  it.each(['direct', 'download'] as const)(
    'every byte comes over wires that are cut: %s',
    async mode => {
      const { tab, proxy, url } = await open(mode)
      const cuts: Cut[] = [
        { by: 'fin', afterBytes: 70_000 },
        { by: 'fin', afterBytes: 60_000 }
      ]
      proxy.plan = ({ method, message, url }) =>
        // Chromium asks for icons too.
        (method === 'GET' && url.includes('download=')) ||
        (mode === 'direct' && message !== undefined && url === '/mcp')
          ? cuts.shift()
          : undefined
      const found = await bring(tab, url, 'bytes:1')
      expect(found).toEqual({ size: BYTES.length, name: 'b.bin', sum: sha256(BYTES) })
      // Where Chromium hands up nothing of the first, a used URL is asked for again, and the second
      // cut finds nothing to cut.
      expect(proxy.cuts.length).toBeGreaterThan(0)
    }
  )

  it('says that a redirect cannot be followed', async () => {
    const { tab, url } = await open('direct')
    await expect(bring(tab, url, 'redirect:1')).rejects.toThrow(
      /untrusted url: this runtime does not say/
    )
  })
})

async function open(
  mode: 'direct' | 'download'
): Promise<{ tab: Tab; proxy: CutProxy; url: string }> {
  const { url: origin } = await listen((req, res) => {
    res.writeHead(200, {
      'Content-Type': req.url === '/client.js' ? 'text/javascript' : 'text/html'
    })
    const load = 'import * as client from "/client.js"; Object.assign(globalThis, { client })'
    res.end(
      req.url === '/client.js' ? script : `<!doctype html><script type="module">${load}</script>`
    )
  })
  const app = express()
  const { port } = await listen(app)
  const proxy = await createCutProxy({ target: port })
  const url = `${proxy.url}/mcp`
  const streams = mcpStreams({
    allowedOrigins: [origin],
    resources: resources({
      open: uri =>
        uri === 'redirect:1'
          ? { redirect: `${origin}/` }
          : { body: BYTES, name: 'b.bin', mimeType: 'a/b' },
      ...(mode === 'download' && { mode, publicUrl: url })
    })
  })
  closeLater(() => streams.close({ drain: 0 }))
  const allowed = { origin, methods: ['GET', 'POST', 'DELETE'], ...corsHeaders }
  app.use('/mcp', cors(allowed), streams).all('/mcp', V1_STATELESS.endpoint())
  const tab = await browser.newPage()
  closeLater(() => tab.close())
  await tab.goto(origin, { waitUntil: 'load' })
  await tab.waitForFunction('typeof client === "object"')
  return { tab, proxy, url }
}

function bring(tab: Tab, url: string, uri: string): Promise<unknown> {
  return tab.evaluate(
    async ([url, uri]) => {
      const { client } = globalThis as unknown as {
        client: typeof import('../../../lib/client/index.js')
      }
      const { stream, size, name } = await client.streamResource(url, uri, {
        minTimeout: 5,
        maxTimeout: 50
      })
      const digest = await crypto.subtle.digest('SHA-256', await new Response(stream).arrayBuffer())
      const sum = [...new Uint8Array(digest)]
        .map(byte => byte.toString(16).padStart(2, '0'))
        .join('')
      return { size, name, sum }
    },
    [url, uri] as const
  )
}
