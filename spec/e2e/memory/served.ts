// Servers in processes of their own, whose memory can be compared.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { McpStreamsOptions, McpStreamsStats } from '../../../lib/index.js'
import type { TasksOptions } from '../../../lib/features/tasks/index.js'
import { start } from '../../bench/processes.js'

export const MEBIBYTE = 1024 * 1024

/** What can be sent to another process, which makes the values of it. */
export type PlainOptions = Omit<McpStreamsOptions, 'tasks'> & { readonly tasks?: TasksOptions }

export interface ServerOptions {
  /** The endpoint alone, or behind the middleware. */
  variant: 'bare' | 'ours'
  endpoint: 'raw' | 'sdk'
  /** Of the parser in front of the SDK. */
  limit?: string
  streams?: PlainOptions
}

export interface ServerProcess {
  port: number
  held(): Promise<number>
  resident(): Promise<number>
  begin(): Promise<number>
  peak(): Promise<number>
  stats(): Promise<McpStreamsStats>
}

/** Runs `work` with a server in a process of its own. */
export async function withServer<T>(
  options: ServerOptions,
  work: (server: ServerProcess) => Promise<T>
): Promise<T> {
  await promisify(execFile)(process.execPath, [
    fileURLToPath(new URL('../../../.config/ensure-dist.js', import.meta.url))
  ])
  const server = await start(new URL('./server.js', import.meta.url).href, options)
  try {
    return await work({
      port: (await server.call('port')) as number,
      held: () => server.call('held') as Promise<number>,
      resident: () => server.call('resident') as Promise<number>,
      begin: () => server.call('begin') as Promise<number>,
      peak: () => server.call('peak') as Promise<number>,
      stats: () => server.call('stats') as Promise<McpStreamsStats>
    })
  } finally {
    await server.stop()
  }
}

/** A request as it goes over the wire. */
export function requestBytes(body: string | Buffer, headers: Record<string, string> = {}): Buffer {
  const bytes = Buffer.from(body)
  const all = {
    Host: 'localhost',
    Accept: 'application/json, text/event-stream',
    'Content-Type': 'application/json',
    'MCP-Protocol-Version': '2025-11-25',
    'Content-Length': String(bytes.length),
    ...headers
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.concat([Buffer.from(`POST /mcp HTTP/1.1\r\n${lines.join('')}\r\n`), bytes])
}

/** Sends a request, and waits for the first byte of its response. */
export async function begin(port: number, bytes: Buffer): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(bytes)
  await Promise.race([once(socket, 'data'), once(socket, 'close')])
  return socket
}

/** Sends a request, and waits until the server closes the connection. */
export async function exchange(port: number, bytes: Buffer): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined).resume()
  socket.write(bytes)
  await once(socket, 'close')
}
