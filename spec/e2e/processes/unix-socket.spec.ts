// Stdio's framing over a Unix socket: the client process is killed in the middle of a call, and a
// new one takes the call over.

import { beforeAll, describe, expect, it } from '@jest/globals'
import * as v2 from '@modelcontextprotocol/server/stdio'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer as listenOn, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { mcpStreams } from '../../../lib/index.js'
import { resumableTransport, type TransportLike } from '../../../lib/wires/index.js'
import { createServer, ToolLog } from '../../helpers/endpoints/sdk-v1.js'
import { createServer as createV2 } from '../../helpers/endpoints/sdk-v2.js'
import { Awaitable } from '../../helpers/gate.js'
import type { Json } from '../../helpers/open-stream.js'
import { closeLater } from '../../helpers/listen.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))

beforeAll(() => {
  expect(spawnSync(process.execPath, ['.config/ensure-dist.js'], { cwd: root }).status).toBe(0)
})

/** A server for each connection, all on the same streams, as long as this process lives. */
async function serveUnixSocket(version: 'v1' | 'v2') {
  const log = new ToolLog()
  const streams = mcpStreams({ resumeInterval: { min: 0, max: 60 } })
  const transports: TransportLike[] = []
  const sockets = new Awaitable<Socket>()
  const gone = new Awaitable<Socket>()
  const folder = await mkdtemp(join(tmpdir(), 'mcp-streams-'))
  const path = join(folder, 'mcp.sock')
  const server = listenOn(socket => {
    sockets.push(socket)
    socket.on('error', () => undefined)
    const stdio =
      version === 'v1'
        ? new StdioServerTransport(socket, socket)
        : new v2.StdioServerTransport(socket, socket)
    stdio.onclose = () => socket.destroy()
    // Of its own accord, v1 does not notice that its client has gone.
    socket.once('close', () => {
      void stdio.close()
      gone.push(socket)
    })
    const transport = resumableTransport(stdio, streams)
    transports.push(transport)
    void (version === 'v1' ? createServer(log, {}) : createV2(log, undefined, 'legacy')).connect(
      transport
    )
  })
  server.listen(path)
  await once(server, 'listening')
  closeLater(async () => {
    await streams.close({ drain: 0 })
    for (const transport of transports) await transport.close()
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => server.close(resolve))
    await rm(folder, { recursive: true })
  })
  return { path, log, streams, sockets, gone }
}

interface ClientProcess {
  child: ChildProcess
  lines: Awaitable<Json>
  exited: Promise<unknown>
}

function startClient(...args: string[]): ClientProcess {
  const child = spawn(process.execPath, ['spec/e2e/processes/stdio-client.js', ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const lines = new Awaitable<Json>()
  createInterface(child.stdout!).on('line', line => lines.push(JSON.parse(line)))
  const exited = once(child, 'exit')
  closeLater(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return { child, lines, exited }
}

describe.each(['v1', 'v2'] as const)('with a server of the official SDK, %s', version => {
  it('a new client process goes on where a killed one stopped, and the tool runs once', async () => {
    const { path, log, streams, sockets, gone } = await serveUnixSocket(version)
    const first = startClient(path)
    // Behind the stream of the handshake, that of the call.
    await log.calls.nth(1)
    log.release('a', 2)
    expect(await first.lines.nth(5)).toEqual({ progress: 2 })
    const { streamId } = first.lines[2]
    first.child.kill('SIGKILL')
    await first.exited
    await gone.nth(1)

    log.release('a', 1)

    const second = startClient(path, streamId)
    await sockets.nth(2)
    log.release('a', 2)
    const result = { content: [{ type: 'text', text: 'counted to 4' }] }
    expect(await second.exited).toEqual([0, null])
    expect(second.lines.slice(2)).toMatchObject([
      { progress: 1 },
      { progress: 2 },
      { progress: 3 },
      { progress: 4 },
      { result }
    ])
    expect(log.executions('a')).toBe(1)
    expect(streams.stats().resumes).toBe(1)
  })
})
