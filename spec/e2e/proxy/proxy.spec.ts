// `express-mcp-streams proxy` in front of servers that know nothing of it, with cuts on both of its
// sides, and clients as people have them.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { resumableFetch } from '../../../lib/client/index.js'
import { selfSigned } from '../../features/hand-off/self-signed.js'
import { open } from '../../features/hardening/wire.js'
import { isWithoutRedis, startRedis } from '../../helpers/backplane/redis-server.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { closeLater } from '../../helpers/close-all.js'
import {
  createCutProxy,
  type CutBy,
  type CutProxy,
  type ProxiedRequest
} from '../../helpers/cut-proxy.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { listen, listenOnLoopback } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, notification, post, result } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'
import { root } from '../readme/markdown.js'
import { SERVERS, startCommand, type Server } from './start.js'

beforeAll(() => {
  execFileSync(process.execPath, ['.config/ensure-dist.js'], { cwd: root })
})

const STEPS = [1, 2, 3, 4, 5]
const HEADERS = headersFor({ version: '2025-11-25' })

/** The progress of a call, and how it ended. */
async function progressOf(
  connected: Promise<{ client: unknown }>,
  { call }: Server,
  isV1: boolean
): Promise<[number[], unknown]> {
  const { client } = (await connected) as Json
  const progress: number[] = []
  const onprogress = (step: { progress: number }): void => void progress.push(step.progress)
  const calling = client.callTool(call, ...(isV1 ? [undefined] : []), { onprogress })
  return [progress, await calling.then(() => 'done', String)]
}

const CLIENTS: Record<string, (url: string, server: Server) => Promise<[number[], unknown]>> = {
  'SDK v1': (url, server) => progressOf(connectV1(url), server, true),
  'SDK v2': (url, server) => progressOf(connectV2(url, { era: '2025-11-25' }), server, false),
  resumableFetch: (url, server) =>
    progressOf(connectV1(url, { fetch: resumableFetch() }), server, true)
}

const isCall = ({ message }: ProxiedRequest): boolean => message?.method === 'tools/call'
/** The response to the call is cut behind its third event. */
const cutCalls = (target: number, by: CutBy): Promise<CutProxy> =>
  createCutProxy({
    target,
    plan: request => (isCall(request) ? { by, afterEvents: 3 } : undefined)
  })

/** A process that has answered twice has read all that had come before. */
async function seeThatItHasRead(url: string): Promise<void> {
  for (let i = 0; i < 2; i++) await (await fetch(new URL('/healthz', url))).text()
}

describe.each(Object.entries(SERVERS))('in front of %s', (_, start) => {
  it('a call outlives cuts between client and proxy', async () => {
    const server = await start()
    if (server === undefined) return
    const { port } = await startCommand(`http://127.0.0.1:${server.port}/mcp`, ['--retry', '100'])
    const cutting = await cutCalls(port, 'rst')
    const url = `${cutting.url}/mcp`
    const outcomes = Object.values(CLIENTS).map(call => call(url, server))
    expect(await Promise.all(outcomes)).toEqual(outcomes.map(() => [STEPS, 'done']))
    expect(cutting.cuts).toHaveLength(outcomes.length)
  })

  it('a call goes on after a cut between proxy and server, or ends with an error', async () => {
    const server = await start()
    if (server === undefined) return
    const cutting = await cutCalls(server.port, 'silence')
    const { url, errors } = await startCommand(`${cutting.url}/mcp`, ['--retry', '100'])
    const outcome = CLIENTS['SDK v1']!(url, server)
    const passage = await cutting.nthCut(1)
    await seeThatItHasRead(url)
    cutting.cutNow('rst', passage)
    const [progress, end] = await outcome
    expect(cutting.cuts).toHaveLength(1)
    await until(() => errors().startsWith('the target has broken off its response\n'))
    if (server.resumes) expect([progress, end]).toEqual([STEPS, 'done'])
    else expect(end).toMatch(/ended the stream without a response/)
  })
})

describe('the process', () => {
  it('finishes a call after SIGTERM, and exits with 0', async () => {
    const endpoint = rawEndpoint(call => call.open())
    const target = await listen(endpoint)
    const { child, url } = await startCommand(`${target.url}/mcp`)
    const running = await post(url, callTool(1, 'any'), HEADERS)
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    endpoint.calls[0]!.result('done')
    await running.ended
    expect(running.messages()).toEqual([result(1, 'done')])
    expect(await exited).toEqual([0, null])
  })

  it('exits with 2 where it is called wrongly, by one line', () => {
    const program = `${root}dist/command/index.js`
    const args = [program, 'proxy', 'http://127.0.0.1/', '--retry', 'soon']
    expect(() => execFileSync(process.execPath, args, { stdio: 'pipe' })).toThrow(
      expect.objectContaining({
        status: 2,
        stderr: Buffer.from(
          "option --retry must be a whole number, 0 or more, or null (milliseconds), not 'soon'\n"
        )
      })
    )
  })

  it('speaks TLS to a server that it can verify, and to no other', async () => {
    const { key, cert } = selfSigned()
    const endpoint = rawEndpoint(call => call.result())
    const server = createServer({ key, cert }, (req, res) => void endpoint(req, res))
    const port = await listenOnLoopback(server)
    const folder = mkdtempSync(join(tmpdir(), 'proxy-'))
    closeLater(() => {
      rmSync(folder, { recursive: true })
      server.closeAllConnections()
      server.close()
    })
    writeFileSync(join(folder, 'ca.pem'), cert)
    const target = `https://localhost:${port}/mcp`
    const trusting = await startCommand(target, [], {
      NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem')
    })
    const answered = await ended(post(trusting.url, callTool(1, 'any'), HEADERS))
    expect(answered.messages()).toEqual([result(1, {})])
    const { url, errors } = await startCommand(target)
    expect((await ended(post(url, callTool(1, 'any'), HEADERS))).status).toBe(502)
    await until(() => errors().startsWith('the target has not answered: self-signed certificate'))
  })

  it('outlives what Node reads with its insecure parser, and would not write', async () => {
    const server = createTcpServer(socket => {
      socket.on('error', () => undefined)
      socket.on('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nX-Own: a\x01b\r\nContent-Length: 0\r\n\r\n')
      })
    })
    const target = await listenOnLoopback(server)
    closeLater(() => server.close())
    const { url, port, child } = await startCommand(`http://127.0.0.1:${target}/mcp`, [], {
      NODE_OPTIONS: '--insecure-http-parser'
    })
    expect((await ended(post(url, callTool(1, 'any'), HEADERS))).status).toBe(502)
    const { socket, text } = open(port)
    const body = JSON.stringify(callTool(1, 'any'))
    const head = `Host: localhost\r\nMCP-Protocol-Version: 2025-11-25\r\nX-Own: a\x01b\r\n`
    socket.write(`POST /mcp HTTP/1.1\r\n${head}Content-Length: ${body.length}\r\n\r\n${body}`)
    await until(() => text().includes('failed'))
    expect(text()).toMatch(/^HTTP\/1\.1 500 /)
    expect(child.exitCode).toBe(null)
    child.kill('SIGTERM')
    expect(await once(child, 'exit')).toEqual([0, null])
  })

  const withRedis = isWithoutRedis ? it.skip : it

  withRedis('is one service with others over Redis', async () => {
    const redis = await startRedis()
    const goesOn = gate()
    const endpoint = rawEndpoint(async call => {
      call.emit(notification('notifications/message', { level: 'info', data: 1 }))
      await goesOn.opened
      call.result()
    })
    const { url } = await listen(endpoint)
    const env = { MCP_STREAMS_REDIS: redis.url, MCP_STREAMS_REDIS_SECRET: 'sixteen characters' }
    const [one, other] = await Promise.all([1, 2].map(() => startCommand(`${url}/mcp`, [], env)))
    const response = await post(one!.url, callTool(1, 'any'), HEADERS)
    await response.nextMessage()
    response.destroy()
    const resumed = await get(streamUrl(response, other!.url), HEADERS)
    goesOn.open()
    await resumed.ended
    expect(resumed.messages().at(-1)).toEqual(result(1, {}))
  })
})
