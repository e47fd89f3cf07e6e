// `express-mcp-streams check`, as an operator runs it: against endpoints that are well, and that
// are not.

import { afterEach, describe, expect, it } from '@jest/globals'
import cors from 'cors'
import express, { type Express, type RequestHandler } from 'express'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:https'
import { fileURLToPath } from 'node:url'
import { corsHeaders, mcpStreams } from '../../../lib/index.js'
import { closeAll, closeLater, listen, listenOnLoopback } from '../../helpers/listen.js'
import { sdkV1Stateful, type SdkV1Options } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler } from '../../helpers/endpoints/sdk-v2.js'
import { selfSigned } from '../../features/hand-off/self-signed.js'
import { programs, startNginx } from '../proxies/configurations.js'

afterEach(closeAll)

const command = fileURLToPath(new URL('../../../dist/check/index.js', import.meta.url))

interface Run {
  code: number | null
  lines: string[]
  stderr: string
}

function check(...args: string[]): Promise<Run> {
  return new Promise(resolve => {
    const child = execFile(process.execPath, [command, ...args], (_, stdout, stderr) =>
      resolve({ code: child.exitCode, lines: stdout.trimEnd().split('\n'), stderr })
    )
  })
}

/** Not as patient as it is by itself, so that a spec is not kept waiting. */
const look = (url: string, ...args: string[]): Promise<Run> =>
  check('check', url, '--keep-alive', '2', '--timeout', '8', ...args)

const middleware = (): ReturnType<typeof mcpStreams> => {
  const streams = mcpStreams({ keepAlive: 200 })
  closeLater(() => streams.close({ drain: 0 }))
  return streams
}

async function serveApp(app: Express): Promise<string> {
  const { url } = await listen(app)
  return `${url}/mcp`
}

const mounted = (options: SdkV1Options = {}, ...inFront: RequestHandler[]): Express =>
  express()
    .use('/mcp', ...inFront, middleware())
    .all('/mcp', sdkV1Stateful(options))

/** The package comes without types. */
const corsWith = cors as (options: object) => RequestHandler

const WELL = [
  '✓ MCP endpoint, revision 2025-11-25',
  '✓ no proxy to be seen in front of it',
  '✓ stream link in the head',
  '✓ event ids of ours',
  '✓ a first id, in the form that 2025-11-25 takes',
  '✓ resumes by its link',
  '✓ resumes by Last-Event-ID at the endpoint',
  '– no CORS: pages of other origins cannot use it',
  '✓ first bytes of an open stream come through at once',
  expect.stringMatching(/^✓ silence is broken after \d s$/)
]

describe('an endpoint that is well', () => {
  it('passes with the middleware in front of it', async () => {
    const run = await look(await serveApp(mounted()))
    expect(run).toEqual({ code: 0, lines: WELL, stderr: '' })
  })

  it('passes with JSON answers, as far as they can be looked at', async () => {
    const { code, lines } = await look(await serveApp(mounted({ enableJsonResponse: true })))
    expect(lines).toContain(
      '– answers are JSON: there is no stream to look at in an answer that comes at once'
    )
    expect(lines).toContain('✓ stream link in the head')
    expect(code).toBe(0)
  })

  it('passes at 2026-07-28, without sessions', async () => {
    const app = express()
      .use('/mcp', middleware())
      .all('/mcp', sdkV2Handler({ legacy: 'reject' }))
    const { code, lines } = await look(await serveApp(app))
    expect(lines[0]).toBe('✓ MCP endpoint, revision 2026-07-28, without sessions')
    expect(code).toBe(0)
  })

  it('passes with the CORS headers that pages need, and fails without them', async () => {
    const withThem = await look(
      await serveApp(mounted({}, corsWith({ origin: true, ...corsHeaders })))
    )
    const without = await look(await serveApp(mounted({}, corsWith({ origin: true }))))
    expect(withThem).toMatchObject({ code: 0 })
    expect(withThem.lines).toContain('✓ CORS exposes what pages need')
    expect(without).toMatchObject({ code: 1 })
    expect(without.lines).toContainEqual(
      expect.stringMatching(/^✗ CORS does not expose Link, .*: use corsHeaders$/)
    )
  })
})

describe('an endpoint that is not well', () => {
  const NOT_IN_FRONT =
    '✗ no stream link: the middleware is not mounted, or not in front of the endpoint'

  it.each([
    ['without the middleware', () => express().all('/mcp', sdkV1Stateful())],
    [
      'with the middleware behind it',
      () => express().all('/mcp', sdkV1Stateful()).use('/mcp', middleware())
    ]
  ])('fails %s', async (_, app) => {
    const { code, lines } = await look(await serveApp(app()))
    expect(lines).toContain(NOT_IN_FRONT)
    expect(code).toBe(1)
  })

  it('fails where nothing breaks the silence', async () => {
    const streams = mcpStreams({ keepAlive: null })
    closeLater(() => streams.close({ drain: 0 }))
    const url = await serveApp(express().use('/mcp', streams).all('/mcp', sdkV1Stateful()))
    const { code, lines } = await look(url)
    expect(lines.at(-1)).toBe(
      '✗ no comment in 2 s of silence: what cuts idle connections will cut its streams'
    )
    expect(code).toBe(1)
  })
})

const describeWithNginx =
  programs.nginx === undefined && !process.env['CI'] ? describe.skip : describe

describeWithNginx('behind nginx (SKIPPED without it, but not in CI)', () => {
  // Its buffers are no fault: what it gets in small pieces it passes on in small pieces.
  it('names it, and passes with its buffers on', async () => {
    const { port } = await listen(mounted())
    const { url } = await startNginx(port, [
      ['proxy_http_version 1.1;', 'proxy_http_version 1.1; proxy_ignore_headers X-Accel-Buffering;']
    ])
    const { code, lines } = await look(`${url}/gateway/mcp`)
    expect(lines).toContain('✓ seems to be behind nginx')
    expect(code).toBe(0)
  })
})

describe('behind something that passes bodies on in one piece', () => {
  it('sees that it buffers', async () => {
    const { url: target } = await listen(mounted())
    const { url } = await listen(async (req, res) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const headers = new Headers(req.headers as Record<string, string>)
      for (const name of ['host', 'connection', 'content-length', 'transfer-encoding'])
        headers.delete(name)
      const gone = new AbortController()
      res.once('close', () => gone.abort())
      try {
        const body = chunks.length > 0 ? { body: Buffer.concat(chunks) } : {}
        const answer = await fetch(`${target}${req.url}`, {
          method: req.method!,
          headers,
          ...body,
          signal: gone.signal
        })
        const whole = Buffer.from(await answer.arrayBuffer())
        answer.headers.forEach(
          (value, name) => void (/^content-|^transfer-/.test(name) || res.setHeader(name, value))
        )
        res.setHeader('Content-Type', answer.headers.get('content-type') ?? 'text/plain')
        res.writeHead(answer.status).end(whole)
      } catch {
        res.destroy()
      }
    })
    const { code, lines } = await look(`${url}/mcp`)
    expect(lines.at(-1)).toBe(
      '✗ an open stream shows nothing for 2 s, so something buffers on the way'
    )
    expect(code).toBe(1)
  })
})

describe('what cannot be checked', () => {
  const app = (): Express =>
    express()
      .all('/moved', (_, res) => res.redirect(308, '/mcp'))
      .all('/guarded', (req, res, next) =>
        req.headers['x-key'] === 'open' ? next() : void res.sendStatus(401)
      )
      .all('/page', (_, res) => void res.send('<p>Hello</p>'))
      .all('/silent', () => undefined)
      .all(
        '/half',
        (_, res) => void res.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
      )
      .use(mounted())

  it.each([
    ['moved', /^✗ it redirects \(308\) to http:\/\/127\.0\.0\.1:\d+\/mcp: check that URL$/],
    ['guarded', /^✗ it answers 401: it needs credentials/],
    ['page', /^✗ it answers 200 to initialize: this is no MCP endpoint$/],
    ['silent', /^✗ it did not answer in time$/],
    ['half', /^✗ it did not answer in time$/],
    ['nothing', /^✗ it answers 404 to a POST: this is no MCP endpoint, or it is down$/]
  ])('says so: /%s', async (path, message) => {
    const { url } = await listen(app())
    const { code, stderr } = await look(`${url}/${path}`, '--timeout', '1')
    expect(stderr.trimEnd()).toMatch(message)
    expect(code).toBe(2)
  })

  it('lets the headers that are given it open the door', async () => {
    const { url } = await listen(
      express().use(
        '/mcp',
        (req, res, next) => (req.headers['x-key'] === 'open' ? next() : void res.sendStatus(401)),
        mounted()
      )
    )
    expect(await look(`${url}/mcp`)).toMatchObject({ code: 2 })
  })

  it('says that a certificate is not valid', async () => {
    const server = createServer(selfSigned(), (_, res) => res.end())
    const port = await listenOnLoopback(server)
    closeLater(async () => {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    })
    const { code, stderr } = await look(`https://127.0.0.1:${port}/mcp`)
    expect(stderr.trimEnd()).toMatch(/^✗ its certificate is not valid \(\w+\)$/)
    expect(code).toBe(2)
  })

  it('says that nobody listens', async () => {
    const { url, close } = await listen(express())
    await close()
    expect(await look(`${url}/mcp`)).toMatchObject({ code: 2, stderr: '✗ nobody listens there\n' })
  })

  it.each([
    [[], /^Usage: express-mcp-streams check <url>/],
    [['check'], /^Usage: /],
    [['check', 'mcp.example.com'], /^mcp\.example\.com is no http\(s\) URL$/m],
    [
      ['check', 'http://127.0.0.1/', '--header', 'Authorization'],
      /^--header Authorization: 'Name: value' is wanted$/m
    ],
    [
      ['check', 'http://127.0.0.1/', '--keep-alive', 'long'],
      /^--keep-alive: seconds, up to 3600$/m
    ],
    [['check', 'http://127.0.0.1/', '--colour'], /Unknown option '--colour'/]
  ])('explains how it is called: %j', async (args, message) => {
    const { code, stderr } = await check(...args)
    expect(stderr).toMatch(message)
    expect(code).toBe(2)
  })
})
