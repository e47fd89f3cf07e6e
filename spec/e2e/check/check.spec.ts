// `express-mcp-streams check`, as an operator runs it: against endpoints that are well, and that
// are not.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js'
import cors from 'cors'
import express, { type Express, type RequestHandler, type Response } from 'express'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:https'
import { connect, createServer as createTcpServer } from 'node:net'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { backplane } from '../../../lib/backplane/index.js'
import { command } from '../../../lib/check/command.js'
import { corsHeaders, mcpStreams } from '../../../lib/index.js'
import { Hub } from '../../helpers/backplane/memory.js'
import { freePort } from '../../helpers/free-port.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen, listenOnLoopback } from '../../helpers/listen.js'
import { sdkV1Stateful, sdkV1Stateless, type SdkV1Options } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler } from '../../helpers/endpoints/sdk-v2.js'
import { serve } from '../../helpers/serve.js'
import { selfSigned } from '../../features/hand-off/self-signed.js'
import { manifest } from '../package/project.js'
import { root } from '../readme/markdown.js'
import { programs, startNginx } from '../proxies/configurations.js'

// Most begin one process or more.

interface Run {
  code: number | null
  /** Without the last line, if that sums up. */
  lines: string[]
  summary?: string | undefined
  stderr: string
}

const summed = (run: Run): Run => {
  const isSummed = / right, /.test(run.lines.at(-1) ?? '')
  return isSummed ? { ...run, lines: run.lines.slice(0, -1), summary: run.lines.at(-1) } : run
}

async function check(...args: string[]): Promise<Run> {
  const lines: string[] = []
  let stderr = ''
  const code = await command(args, {
    out: line => lines.push(line),
    err: line => (stderr += `${line}\n`),
    isColoured: false,
    version: '1.2.3'
  })
  return summed({ code, lines, stderr })
}

/** Not as patient as it is by itself, so that a spec is not kept waiting. */
const look = (url: string, ...args: string[]): Promise<Run> =>
  check('check', url, '--keep-alive', '0.5', '--timeout', '8', ...args)

/** The same as an operator runs it. */
function run(...args: string[]): Promise<Run> {
  const program = fileURLToPath(new URL('../../../dist/command/index.js', import.meta.url))
  return new Promise(resolve => {
    const child = execFile(process.execPath, [program, ...args], (_, stdout, stderr) =>
      resolve(summed({ code: child.exitCode, lines: stdout.trimEnd().split('\n'), stderr }))
    )
  })
}

const middleware = (keepAlive = 200): ReturnType<typeof mcpStreams> => {
  const streams = mcpStreams({ keepAlive })
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
  '✓ the middleware is in front of it',
  '✓ stream link in the head',
  '✓ event ids of ours',
  '✓ a first id, in the form that 2025-11-25 takes',
  '✓ resumes by its link',
  '✓ resumes by Last-Event-ID at the endpoint',
  '– no CORS: pages of other origins cannot use it',
  '✓ first bytes of an open stream come through at once',
  expect.stringMatching(/^✓ silence is broken after \d s$/)
]
const ALL_WELL = { code: 0, lines: WELL, summary: '10 right, 0 to mend, 1 not seen', stderr: '' }

describe('the command', () => {
  beforeAll(async () => {
    await promisify(execFile)(process.execPath, ['.config/ensure-dist.js'], { cwd: root })
  })

  it('prints line by line, and exits with 0 where all is well', async () => {
    const well = await run('check', await serveApp(mounted()), '--keep-alive', '2')
    expect(well).toEqual(ALL_WELL)
  })

  it('exits with 1 where a client would suffer, and with 2 where it could not look', async () => {
    const bare = await serveApp(express().all('/mcp', sdkV1Stateful()))
    expect(await run('check', bare, '--keep-alive', '0.1')).toMatchObject({ code: 1, stderr: '' })
    const none = await run('check', bare.replace('/mcp', '/none'))
    expect(none).toMatchObject({ code: 2, lines: [''], stderr: expect.stringMatching(/^✗ it ans/) })
    expect(await run()).toMatchObject({ code: 2, stderr: expect.stringMatching(/^Usage: /) })
    expect(await run('--version')).toMatchObject({ code: 0, lines: [manifest.version] })
  })
})

describe('an endpoint that is well', () => {
  it('passes with the middleware in front of it', async () => {
    expect(await look(await serveApp(mounted()))).toEqual(ALL_WELL)
  })

  it('passes with JSON answers, as far as they can be looked at', async () => {
    const { code, lines } = await look(await serveApp(mounted({ enableJsonResponse: true })))
    expect(lines).toContain(
      '– answers are JSON: there is no stream to look at in an answer that comes at once'
    )
    expect(lines).toContain('✓ the middleware is in front of it')
    expect(code).toBe(0)
  })

  it('passes at 2026-07-28, without sessions', async () => {
    const app = express()
      .use('/mcp', middleware())
      .all('/mcp', sdkV2Handler({ legacy: 'reject' }))
    const { code, lines } = await look(await serveApp(app))
    expect(lines[0]).toBe('✓ MCP endpoint, revision 2026-07-28, without sessions')
    expect(lines.at(-1)).toMatch(/^– first bytes and keep-alive: there is no listen channel/)
    expect(code).toBe(0)
  })

  it('is looked at in both revisions, if it speaks an older one and 2026-07-28', async () => {
    const app = express().use('/mcp', middleware()).all('/mcp', sdkV2Handler())
    const { code, lines } = await look(await serveApp(app))
    expect(lines).toEqual([
      '✓ MCP endpoint, revision 2025-11-25, without sessions',
      ...WELL.slice(1, 8),
      '✓ it speaks 2026-07-28, too',
      expect.stringMatching(/^– 2026-07-28: answers are JSON/),
      '– no CORS: pages of other origins cannot use it',
      expect.stringMatching(/^– first bytes and keep-alive: there is no listen channel/)
    ])
    expect(code).toBe(0)
  })

  it('is not waited for while its instance does not know the others yet', async () => {
    const end = new Hub().join()
    end.isUp = false // until it has connected to Redis
    const { url } = await serve(sdkV1Stateful(), { backplane: backplane(end), keepAlive: 200 })
    expect(await look(url)).toEqual(ALL_WELL)
  })

  it.each([
    ['2026-07-28', () => sdkV2Handler({ legacy: 'reject' })],
    ['2025-11-25', () => sdkV1Stateless()]
  ])('shows its open streams without sessions, at %s, by a call', async (_, endpoint) => {
    // No comment comes between the events, however busy the machine is.
    const app = express().use('/mcp', middleware(60_000)).all('/mcp', endpoint())
    const url = await serveApp(app)
    const given = ['--keep-alive', '3', '--call', 'count', '--arguments']
    const args = JSON.stringify({ n: 5, delayMs: 100 })
    const { code, lines } = await look(url, ...given, args)
    expect(lines).toContain('✓ first bytes of an open stream come through at once')
    expect(lines.at(-1)).toMatch(/^– keep-alive: the call was over before/)
    expect(code).toBe(0)

    const brief = await look(url, ...given, '{"n":1}')
    expect(brief.lines.at(-1)).toMatch(
      /^– .*: the call was over at once, or held back until it was/
    )
    expect(brief.code).toBe(0)
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

describe('an endpoint that is not well for pages', () => {
  const app = 'https://app.example'
  const FORGOTTEN = /^✗ CORS allows (\*|https:\/\/app\.example), but the option allowedOrigins/
  const lookAt = async (allowedOrigins: string[], origin: string): Promise<Run> => {
    const streams = mcpStreams({ keepAlive: 200, allowedOrigins })
    closeLater(() => streams.close({ drain: 0 }))
    const site = express().use('/mcp', corsWith({ origin, ...corsHeaders }), streams)
    return look(await serveApp(site.all('/mcp', sdkV1Stateful())))
  }

  it.each([app, '*'])('fails where %s may send requests, and not use streams', async origin => {
    const { code, lines } = await lookAt([], origin)
    expect(lines).toContainEqual(expect.stringMatching(FORGOTTEN))
    expect(code).toBe(1)
  })

  it.each([app, '*'])('passes where %s may do both', async origin => {
    const { code, lines } = await lookAt([origin], origin)
    expect(lines).not.toContainEqual(expect.stringMatching(FORGOTTEN))
    expect(code).toBe(0)
  })
})

describe('an endpoint that is not well', () => {
  // Those that are waited for are waited for together: then no `afterEach` runs.

  const NOT_IN_FRONT =
    "✗ the middleware is not in front of it: app.use('/mcp', mcpStreams()) on its path, " +
    'before what answers'

  it.concurrent.each([
    ['without the middleware', () => express().all('/mcp', sdkV1Stateful())],
    [
      'with the middleware behind it',
      () => express().all('/mcp', sdkV1Stateful()).use('/mcp', middleware())
    ],
    [
      'with the middleware behind what answers a POST',
      () => express().post('/mcp', sdkV1Stateful()).use('/mcp', middleware())
    ],
    [
      'without the middleware, where answers are JSON',
      () => express().all('/mcp', sdkV1Stateful({ enableJsonResponse: true }))
    ]
  ])('fails %s', async (_, app) => {
    const { code, lines } = await look(await serveApp(app()))
    expect(lines.filter(line => line.startsWith('✗'))).toEqual([NOT_IN_FRONT])
    // Its listen channel is quiet, as nobody writes to it: that is no fault of what is in between.
    expect(lines.at(-1)).toMatch(/^– first bytes and keep-alive: /)
    expect(code).toBe(1)
  })

  it.concurrent('fails where the middleware gets no GET, and says how to mount it', async () => {
    const url = await serveApp(express().post('/mcp', middleware(), sdkV1Stateless()))
    const { code, lines } = await look(url)
    expect(lines).toContain(
      '✗ not resumed by its link: 404, and not from the middleware: ' +
        'it must get GET and DELETE too (app.use or app.all, not app.post)'
    )
    expect(code).toBe(1)
  })

  it.concurrent('finds ids of the middleware where an eventStore numbers the events', async () => {
    const { lines } = await look(await serveApp(mounted({ eventStore: new InMemoryEventStore() })))
    expect(lines).toContain('✓ event ids of ours')
  })

  it.concurrent('fails where they are left to the eventStore', async () => {
    const streams = mcpStreams({ eventStore: 'leave' })
    closeLater(() => streams.close({ drain: 0 }))
    const endpoint = sdkV1Stateful({ eventStore: new InMemoryEventStore() })
    const { code, lines } = await look(
      await serveApp(express().use('/mcp', streams).all('/mcp', endpoint))
    )
    expect(lines).toContainEqual(
      expect.stringMatching(/^✗ event ids of another: leave out the option eventStore: 'leave'/)
    )
    expect(lines.at(-1)).toMatch(/^– first bytes and keep-alive: nothing is written /)
    expect(code).toBe(1)
  })

  it('says what an answer says with which a call is refused', async () => {
    const full: RequestHandler = (req, res, next) =>
      req.headers['mcp-method'] === 'tools/call' || req.body?.method === 'tools/call'
        ? void res.status(507).send('no room')
        : next()
    const app = express().use('/mcp', middleware(), express.json(), full)
    const url = await serveApp(app.all('/mcp', sdkV1Stateful()))
    const { lines } = await look(url, '--call', 'count')
    expect(lines.at(-1)).toBe(
      '– first bytes and keep-alive: the call was not answered with an event stream (507); ' +
        'it says: "no room"'
    )
  })

  it('keeps little of a channel that sends without end', async () => {
    const most = 64 * 1024 * 1024
    const sent = gate<Response>()
    const talkative: RequestHandler = (req, res, next) => {
      if (req.method !== 'GET' || req.headers['last-event-id'] !== undefined) return next()
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      let size = 0
      const more = (): void => {
        while (size < most) {
          const piece = Buffer.alloc(1024 * 1024, 'data\n\n')
          size += piece.length
          if (!res.write(piece)) return
        }
        res.off('drain', more)
        sent.open(res as Response)
      }
      res.on('drain', more)
      more()
    }
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    // No middleware is in front, which would keep it itself.
    const url = await serveApp(express().all('/mcp', talkative, sdkV1Stateful()))
    const checking = check('check', url, '--keep-alive', '60')
    const res = await sent.opened
    const forgotten = until(() => {
      collect()
      return process.memoryUsage().arrayBuffers < most / 2
    })
    await forgotten
    res.write('\n\n:\n\n')
    const { lines } = await checking
    // And not when it was over: it was still listening.
    expect(lines.at(-1)).toMatch(/^✓ silence is broken after \d+ s$/)
  })

  it.concurrent('fails where nothing breaks the silence', async () => {
    const streams = mcpStreams({ keepAlive: null })
    closeLater(() => streams.close({ drain: 0 }))
    const url = await serveApp(express().use('/mcp', streams).all('/mcp', sdkV1Stateful()))
    const { code, lines } = await look(url)
    expect(lines.at(-1)).toBe(
      '✗ no comment in 0.5 s of silence, so what cuts idle connections cuts streams: ' +
        'set keepAlive below that'
    )
    expect(code).toBe(1)
  })

  it('fails where the listen channel ends before it has begun, and says nothing else', async () => {
    const endsAtOnce: RequestHandler = (req, res, next) => {
      if (req.method !== 'GET' || req.headers['last-event-id'] !== undefined) return next()
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).end()
    }
    const { code, lines } = await look(await serveApp(mounted({}, endsAtOnce)))
    expect(lines).toEqual([
      ...WELL.slice(0, -2),
      expect.stringMatching(/^✗ the open stream was ended, with nobody asking for it: let the /)
    ])
    expect(code).toBe(1)
  })
})

describe('a call that fails', () => {
  it.each([
    ['SDK 1', () => sdkV1Stateless()],
    ['SDK 1, with JSON', () => sdkV1Stateless({ enableJsonResponse: true })],
    ['SDK 2', () => sdkV2Handler({ legacy: 'reject' })]
  ])('is one that no client could make, with the reason: %s', async (_, endpoint) => {
    const url = await serveApp(express().use('/mcp', middleware()).all('/mcp', endpoint()))
    const { code, lines } = await look(url, '--call', 'no-such')
    expect(lines.at(-1)).toMatch(/^✗ the call of "no-such" fails: ".*no-such.*"; give --call /)
    expect(code).toBe(1)
  })
})

describe('behind something that cuts connections', () => {
  /** Cuts a listen channel or call so many milliseconds after it began, or was heard of last. */
  const cutting = async (target: number, time: number, isBySilence: boolean): Promise<string> => {
    const server = createTcpServer(client => {
      const upstream = connect(target, '127.0.0.1')
      let timer: NodeJS.Timeout | undefined
      const begin = () => {
        clearTimeout(timer)
        timer = setTimeout(cut, time)
      }
      const cut = () => {
        clearTimeout(timer)
        client.destroy()
        upstream.destroy()
      }
      client.on('data', (bytes: Buffer) => {
        if (/^GET (?!.*last-event-id)|"tools\/call"/is.test(bytes.toString())) begin()
      })
      if (isBySilence) upstream.on('data', () => timer && begin())
      for (const socket of [client, upstream]) socket.on('error', cut).on('close', cut)
      client.pipe(upstream).pipe(client)
    })
    closeLater(() => server.close())
    return `http://127.0.0.1:${await listenOnLoopback(server)}/mcp`
  }

  it.each([
    [
      'silent',
      [],
      /^✗ an open stream is cut after [\d.]+ s of silence: set keepAlive below that, or disconnectAfter$/
    ],
    [
      'old',
      ['--call', 'count', '--arguments', '{"n":50,"delayMs":100}'],
      /^✗ an open stream is cut after [\d.]+ s, though it is not silent: set disconnectAfter below that$/
    ]
  ])('finds that %s ones are', async (how, args, finding) => {
    const { port } = await listen(
      express().use('/mcp', middleware(60_000)).all('/mcp', sdkV1Stateful())
    )
    const url = await cutting(port, 1500, how === 'silent')
    const { code, lines, stderr } = await look(url, '--keep-alive', '3', ...args)
    expect(lines.at(-1)).toMatch(finding)
    expect([code, stderr]).toEqual([1, ''])
  })
})

describe('what a server says', () => {
  it('is printed on one line, and not much of it', async () => {
    const said = `9\n✓ all is well \u001b]0;title\u0007 \u009b31m \u202e${'x'.repeat(3_000_000)}`
    const { url } = await listen(async (req, res) => {
      let text = ''
      for await (const chunk of req) text += String(chunk)
      const { id, method } = JSON.parse(text || '{}') as { id?: number; method?: string }
      const result = method === 'initialize' ? { protocolVersion: said, capabilities: {} } : {}
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })
    const { lines, stderr } = await look(url)
    const all = [...lines, ...stderr.trimEnd().split('\n')]
    expect(all[0]).toMatch(/^✓ MCP endpoint, revision 9\\n✓ all is well \\u\{1b\}\]0;title/)
    expect(all.filter(line => /[\p{Cc}\p{Cf}]/u.test(line) || line.length > 400)).toEqual([])
    expect(all).not.toContainEqual(expect.stringMatching(/^✓ all is well/))
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
      '✗ an open stream shows nothing for 2 s: something on the way holds it back; ' +
        'turn its buffering off (HAProxy: option http-no-delay)'
    )
    expect(code).toBe(1)
  })
})

describe('what cannot be checked', () => {
  const eventStream = { 'Content-Type': 'text/event-stream' }
  /** Writes for as long as its client reads. */
  const endless = (res: Response, piece: string): void => {
    const more = (): void => {
      while (!res.destroyed && res.write(piece));
    }
    res.on('drain', more)
    more()
  }
  const answerOf = (status: number, headers = {}, body = '') =>
    ((_, res) => void res.writeHead(status, headers).end(body)) satisfies RequestHandler

  const app = (): Express =>
    express()
      .all('/moved', (_, res) => res.redirect(308, '/mcp'))
      .all('/guarded', (req, res, next) =>
        req.headers['x-key'] === 'open'
          ? next()
          : void res.writeHead(401, { 'WWW-Authenticate': 'Bearer realm="mcp"' }).end()
      )
      .all('/forbidden', answerOf(403))
      .all('/legacy', answerOf(405))
      .all('/busy', answerOf(429, { 'Retry-After': '10' }))
      .all('/down', answerOf(502))
      .all('/page', (_, res) => void res.send('<p>Hello</p>'))
      .all('/api', answerOf(200, {}, '{"jsonrpc":"2.0","error":{"message":"what?\\u001b[31m"}}'))
      .all('/silent', () => undefined)
      .all('/half', (_, res) => void res.writeHead(200, eventStream).flushHeaders())
      .all('/trickle', (_, res) => {
        res.writeHead(200, eventStream)
        const timer = setInterval(() => res.write(':\n'), 50)
        res.once('close', () => clearInterval(timer))
      })
      .all('/endless', (_, res) => endless(res, 'a'.repeat(65_536)))
      .all('/endless-stream', (_, res) =>
        endless(res.writeHead(200, eventStream), `data: ${'a'.repeat(65_536)}\n\n`)
      )
      .all(
        '/failed',
        answerOf(500, {}, `{\n\u001b[31m"reason":"endpoint-failed"\r\n ${'x'.repeat(9000)}`)
      )
      .all('/odd', answerOf(422, {}, '  no\troom\n'))
      .all('/endless-error', (_, res) => endless(res.status(503), 'a'.repeat(65_536)))
      .all('/half-error', (_, res) => void res.status(503).write('mount what'))
      .all('/broken', req => void req.socket.destroy())
      .use(mounted())

  describe('and why', () => {
    it.concurrent.each([
      ['moved', /^✗ it redirects \(308\) to http:\/\/127\.0\.0\.1:\d+\/mcp: check that URL$/],
      ['guarded', /^✗ it answers 401: it needs credentials .*; it wants: Bearer realm="mcp"$/],
      ['forbidden', /^✗ it answers 403: .* for its credentials or for its host name$/],
      ['legacy', /^✗ it answers 405 to a POST: this is no endpoint of Streamable HTTP$/],
      ['busy', /^✗ it answers 429: too many requests; again after 10$/],
      ['down', /^✗ it answers 502: it is down, or what is in front of it does not reach it$/],
      ['page', /^✗ it answers 200 to initialize, with text\/html.*: this is no MCP endpoint$/],
      [
        'api',
        /^✗ it answers 200 .* with the error "what\?\\u\{1b\}\[31m": this is no MCP endpoint$/
      ],
      ['silent', /^✗ it did not answer initialize within 3 s \(--timeout\)$/],
      ['half', /^✗ its answer to initialize began, and did not end within 3 s \(--timeout\)$/],
      ['trickle', /^✗ its answer to initialize began, and did not end within 3 s \(--timeout\)$/],
      ['endless', /^✗ it sends more than 4 MiB in an answer$/],
      ['endless-stream', /^✗ it sends more than 4 MiB in an answer$/],
      [
        'broken',
        /^✗ it closed the connection on initialize: is it https:\/\/, or did it break down\?$/
      ],
      [
        'nothing',
        /^✗ it answers 404 to a POST: nothing is at this path \(often it is \/mcp\); it says: "Error Cannot POST \/nothing"$/
      ],
      [
        'failed',
        /^✗ it answers 500: it is down, .* does not reach it; it says: "\{ \\u\{1b\}\[31m"reason":"endpoint-failed" x{100,180}…"$/
      ],
      ['odd', /^✗ it answers 422 to initialize: this is no MCP endpoint; it says: "no room"$/],
      ['endless-error', /^✗ it answers 503: it is down, .* does not reach it; it says: "a{200}…"$/],
      ['half-error', /^✗ it answers 503: it is down, .* does not reach it; it says: "mount what"$/]
    ])('says so: /%s', async (path, message) => {
      const { url } = await listen(app())
      const isWaitedFor = ['silent', 'half', 'trickle', 'half-error'].includes(path)
      const { code, stderr } = await look(`${url}/${path}`, '--timeout', isWaitedFor ? '3' : '25')
      expect(stderr.trimEnd()).toMatch(message)
      expect(code).toBe(2)
    })
  })

  it('is given up after one time for all answers, however many come', async () => {
    const { url } = await listen((req, res) => {
      const isFirst = req.headers['mcp-protocol-version'] === undefined
      if (isFirst) setTimeout(() => res.writeHead(400).end(), 900)
    })
    const begin = performance.now()
    const { code, stderr } = await look(url, '--timeout', '3')
    expect(stderr).toBe('✗ it did not answer server/discover within 3 s (--timeout)\n')
    expect(code).toBe(2)
    // The second wait is what the first has left, whatever a process takes to start.
    expect(performance.now() - begin).toBeGreaterThanOrEqual(3000)
  })

  it('lets the headers that are given it open the door', async () => {
    const { url } = await listen(
      express().use(
        '/mcp',
        (req, res, next) => (req.headers['x-key'] === 'open' ? next() : void res.sendStatus(401)),
        express().use(middleware()).all('/', sdkV1Stateful())
      )
    )
    expect(await look(`${url}/mcp`)).toMatchObject({ code: 2 })
    expect(await look(`${url}/mcp`, '--header', 'X-Key: open')).toMatchObject({ code: 0 })
    const { code, stderr } = await look(`${url}/mcp`, '--header', 'X-Key: shut')
    expect([code, stderr]).toEqual([2, '✗ it answers 401: it does not take these credentials\n'])
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
    expect(stderr.trimEnd()).toMatch(/^✗ its certificate is not valid \(\w+\); NODE_EXTRA_CA_CERTS/)
    expect(code).toBe(2)
    expect(await look(`http://127.0.0.1:${port}/mcp`)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^✗ it closed the connection on initialize: is it https/)
    })
  })

  it('says that TLS is not what is spoken there', async () => {
    const { url } = await listen(app())
    const { code, stderr } = await look(url.replace('http:', 'https:'))
    expect([code, stderr]).toEqual([2, '✗ it does not speak TLS there: is it http://?\n'])
  })

  it('says that nobody listens', async () => {
    const url = `http://127.0.0.1:${await freePort()}/mcp`
    expect(await look(url)).toMatchObject({ code: 2, stderr: '✗ nobody listens there\n' })
  })

  it.each([
    [[], /^Usage: express-mcp-streams check <url>/],
    [
      ['https://a.example/mcp', '--call', 'x'],
      /^"check" is missing: express-mcp-streams check https:\/\/a\.example\/mcp$/m
    ],
    [['chek', 'https://a.example/mcp'], /^Unknown command "chek": there are "check" and "proxy"$/m],
    [['check'], /^Usage: /],
    [['check', 'mcp.example.com'], /^mcp\.example\.com is no http\(s\) URL$/m],
    [
      ['check', 'http://127.0.0.1/', '--header', 'Authorization'],
      /^--header Authorization: 'Name: value' is wanted$/m
    ],
    [
      // As it stands in the usage.
      ['check', 'http://127.0.0.1/', '--header', 'Authorization: Bearer …'],
      /^--header Authorization: Bearer …: it has a character that no header may have$/m
    ],
    [
      ['check', 'http://127.0.0.1/', '--keep-alive', 'long'],
      /^--keep-alive: seconds, up to 3600$/m
    ],
    [
      ['check', 'http://127.0.0.1/', '--call', 'count', '--arguments', '[1]'],
      /^--arguments \[1\]: a JSON object is wanted$/m
    ],
    [['check', 'http://127.0.0.1/', '--arguments', '{}'], /^--arguments is for --call <tool>$/m],
    [['check', 'http://127.0.0.1/', '--colour'], /Unknown option '--colour'/]
  ])('explains what is wrong with how it is called: %j', async (args, message) => {
    const { code, stderr } = await check(...args)
    expect(stderr).toMatch(message)
    expect(code).toBe(2)
  })

  it.each([[['--help']], [['-h']], [['check', '--help']]])(
    'says how it is called: %j',
    async args => {
      const { code, lines, stderr } = await check(...args)
      expect([code, stderr]).toEqual([0, ''])
      expect(lines.join('\n')).toMatch(/^Usage: express-mcp-streams check <url>/)
    }
  )
})
