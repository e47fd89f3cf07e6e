// The client bundle in headless Chromium, against a server on another origin that the README's CORS
// lines let it use.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import cors from 'cors'
import { build } from 'esbuild'
import express, { type RequestHandler } from 'express'
import { fileURLToPath } from 'node:url'
import { type Browser, type Page as Tab } from 'playwright-core'
import { corsHeaders, mcpStreams } from '../../../lib/index.js'
import { createCutProxy, type CutBy, type CutProxy } from '../../helpers/cut-proxy.js'
import type { ToolLog } from '../../helpers/endpoints/sdk-v1.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import type { Page, PageResult, Sdk } from './pages/page.js'
import { keyIn, V1, V2_MODERN } from '../../features/client/setups.js'
import { startProxy } from '../../features/proxy/start-proxy.js'
import { describeInBrowser, launch } from './chromium.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))

async function bundle(entry: string, format: 'iife' | 'esm', globalName?: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [`${root}/${entry}`],
    bundle: true,
    minify: true,
    platform: 'browser',
    target: 'es2022',
    format,
    ...(globalName !== undefined && { globalName }),
    write: false,
    logLevel: 'silent'
  })
  return outputFiles[0]!.text
}

let browser: Browser
let scripts: Record<string, string>

describeInBrowser('in a browser (needs chromium; SKIPPED without it, but not in CI)', () => {
  beforeAll(async () => {
    scripts = {
      '/client.js': await bundle('lib/client/index.ts', 'esm'),
      '/page.js': await bundle('spec/e2e/browser/pages/page.ts', 'iife')
    }
    browser = await launch()
  })

  afterAll(() => browser.close())

  describe.each<[Sdk, typeof V1]>([
    ['v1', V1],
    ['v2', V2_MODERN]
  ])('with the official client %s', (sdk, setup) => {
    it('survives cuts all over its calls, on another origin', async () => {
      const { tab, log, proxy, faults } = await open(sdk, setup)
      const kinds: CutBy[] = ['fin', 'rst', 'silence']
      const seen = new Set<string>()
      let reconnections = 0
      proxy.plan = ({ method, url, message }) => {
        const key = keyIn(message)
        if (key !== undefined && !seen.has(key)) {
          seen.add(key)
          const [direction, offset] = key.split(' ') as ['request' | 'response', string]
          return { by: kinds[Number(offset) % 3]!, direction, afterBytes: Number(offset) }
        }
        if (method !== 'GET' || !url.includes('stream=') || reconnections++ % 2 === 0)
          return undefined
        return { by: kinds[reconnections % 3]!, afterBytes: (reconnections * 131) % 1200 }
      }
      const offsets = Array.from({ length: 24 }, (_, i) => i * 73)
      const keys = [
        ...offsets.map(offset => `response ${offset}`),
        ...offsets.slice(0, 12).map(o => `request ${o}`)
      ]
      for (let i = 0; i < keys.length; i += 4) {
        const called = await Promise.all(
          keys.slice(i, i + 4).map(key => call(tab, key, { n: 3, size: 50 }))
        )
        for (const one of called) expect(one).toEqual({ text: 'counted to 3', steps: [1, 2, 3] })
      }
      expect(keys.map(key => log.executions(key))).toEqual(keys.map(() => 1))
      expect(
        proxy.cuts.filter(({ message }) => keyIn(message) !== undefined).length
      ).toBeGreaterThan(24)
      expect(faults).toEqual([])
    })

    it('is what makes the difference', async () => {
      const { tab, proxy } = await open(sdk, setup, { maxRetries: 0 })
      proxy.plan = ({ message }) =>
        keyIn(message) === undefined ? undefined : { by: 'rst', afterEvents: 2 }
      await expect(call(tab, 'lost', { n: 3 })).rejects.toThrow(/cannot go on: retries exhausted/)
    })

    it('ends a call that is aborted', async () => {
      const { tab, log } = await open(sdk, setup)
      const doomed = call(tab, 'doomed', { n: 1, paced: true })
      const failed = expect(doomed).rejects.toThrow()
      await log.calls.nth(1)
      await tab.evaluate('page.abort()')
      await failed
      await until(() => log.aborted('doomed') === 1)
    })
  })

  describe.each<[string, RequestHandler]>([
    ['knows nothing of CORS', (_req, _res, next) => next()],
    // As many servers do, which exposes nothing.
    ['answers CORS itself', cors()]
  ])('through the command proxy, whose target %s', (_, answering) => {
    it.each<[Sdk, typeof V1]>([
      ['v1', V1],
      ['v2', V2_MODERN]
    ])('the official client %s survives cuts', async (sdk, setup) => {
      const through = async (origin: string, endpoint: Endpoint): Promise<number> => {
        const app = express().use(answering).all('/mcp', endpoint)
        const { url } = await listen(app)
        const args = [
          '--allowed-origins',
          origin,
          '--retry',
          '10',
          '--resume-interval',
          '{"min":0}'
        ]
        return (await startProxy(`${url}/mcp`, args)).port
      }
      const { tab, proxy, faults } = await open(sdk, setup, {}, through)
      const cut = new Set<string>()
      proxy.plan = ({ message }) => {
        const key = keyIn(message)
        if (key === undefined || cut.has(key)) return undefined
        cut.add(key)
        return { by: 'rst', afterEvents: 2 }
      }
      for (const key of ['a', 'b'])
        expect(await call(tab, key, { n: 3 })).toEqual({ text: 'counted to 3', steps: [1, 2, 3] })
      expect(proxy.cuts.length).toBeGreaterThanOrEqual(2)
      expect(faults).toEqual([])
    })
  })

  it('knows nothing of Node', async () => {
    const { url } = await listen((_req, res) => res.end())
    const tab = await browser.newPage()
    closeLater(() => tab.close())
    await tab.goto(url)
    await tab.addScriptTag({
      type: 'module',
      content: `${scripts['/client.js']!}; globalThis.loaded = true`
    })
    // An inline module runs when it can, and not when it is added.
    await tab.waitForFunction('globalThis.loaded')
    expect(await tab.evaluate('[typeof process, typeof Buffer, globalThis.loaded]')).toEqual([
      'undefined',
      'undefined',
      true
    ])
  })
})

interface Opened {
  tab: Tab
  proxy: CutProxy
  log: ToolLog
  /** What the page has complained of, but for the cuts themselves. */
  faults: string[]
}

type Endpoint = ReturnType<(typeof V1)['endpoint']>

/** In an application that lets pages of that origin use it. */
async function mounted(origin: string, endpoint: Endpoint): Promise<number> {
  const streams = mcpStreams({ allowedOrigins: [origin], retry: 10, resumeInterval: { min: 0 } })
  closeLater(() => streams.close({ drain: 0 }))
  const allowed = { origin, methods: ['GET', 'POST', 'DELETE'], ...corsHeaders }
  const app = express().use('/mcp', cors(allowed), streams).all('/mcp', endpoint)
  return (await listen(app)).port
}

/** A page of one origin, connected to a server on another, by way of the cut proxy. */
async function open(
  sdk: Sdk,
  setup: typeof V1,
  options: object = {},
  serve = mounted
): Promise<Opened> {
  const { url: origin } = await listen((req, res) => {
    const script = scripts[req.url ?? '']
    res.writeHead(200, { 'Content-Type': script === undefined ? 'text/html' : 'text/javascript' })
    const load =
      'import { resumableFetch } from "/client.js"; Object.assign(globalThis, { resumableFetch })'
    res.end(
      script ??
        `<!doctype html><script type="module">${load}</script><script src="/page.js"></script>`
    )
  })
  const endpoint = setup.endpoint()
  const port = await serve(origin, endpoint)
  const proxy = await createCutProxy({ target: port })
  const tab = await browser.newPage()
  closeLater(() => tab.close())
  const faults: string[] = []
  tab.on('pageerror', error => faults.push(String(error)))
  await tab.goto(origin, { waitUntil: 'load' })
  await tab.waitForFunction('typeof resumableFetch === "function" && typeof page === "object"')
  const settings = {
    minTimeout: 5,
    maxTimeout: 50,
    maxRetries: 1000,
    idleTimeout: 1000,
    ...options
  }
  await tab.evaluate(
    ([url, sdk, settings]) =>
      (globalThis as unknown as { page: Page }).page.connect(url, sdk, settings),
    [`${proxy.url}/mcp`, sdk, settings] as const
  )
  return { tab, proxy, log: endpoint.log, faults }
}

function call(tab: Tab, key: string, args: object): Promise<PageResult> {
  return tab.evaluate(
    ([key, args]) => (globalThis as unknown as { page: Page }).page.call(key, args),
    [key, args] as const
  )
}
