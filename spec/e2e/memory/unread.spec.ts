// A kept result that is asked for again and again by sockets that read nothing: whatever the number
// of them, the process takes no more than it may keep, and 64 MiB.

import { expect, it } from '@jest/globals'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Json } from '../../helpers/open-stream.js'
import { begin, MEBIBYTE, type PlainOptions, requestBytes, withServer } from './served.js'

const SIZE = 8 * MEBIBYTE
const SOCKETS = 40
const MAX_BYTES = 64 * MEBIBYTE
const ROOM = 64 * MEBIBYTE
const PATIENCE = 120_000

const CAPABILITIES = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'x', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': CAPABILITIES
}
const LARGE = { name: 't', arguments: { size: SIZE, wait: 300 } }

const modern = (method: string, params: { name?: string; taskId?: string }): Buffer =>
  requestBytes(
    JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: META } }),
    {
      'MCP-Protocol-Version': '2026-07-28',
      'Mcp-Method': method,
      'Mcp-Name': params.taskId ?? params.name ?? ''
    }
  )
const legacy = (method: string, params: object, accept?: string): Buffer =>
  requestBytes(
    JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    accept === undefined ? {} : { Accept: accept }
  )

interface Way {
  readonly options: PlainOptions
  readonly call: Buffer
  /** Asks for the result of the call, by what that was answered with. */
  readonly ask: (result: Json) => Buffer
}

const TASKS: PlainOptions = { tasks: { after: 0, tools: { t: 'always' } } }
const CORE = legacy('tools/call', { ...LARGE, task: {} })
const withToken = (resumeToken: string | null): Buffer =>
  legacy('tools/call', { ...LARGE, _meta: { resumeToken } })

const WAYS: Record<string, Way> = {
  'tasks/get': {
    options: TASKS,
    call: modern('tools/call', LARGE),
    ask: ({ taskId }) => modern('tasks/get', { taskId })
  },
  'tasks/result as JSON': {
    options: TASKS,
    call: CORE,
    ask: ({ task }) => legacy('tasks/result', { taskId: task.taskId }, 'application/json')
  },
  'tasks/result as an event stream': {
    options: TASKS,
    call: CORE,
    ask: ({ task }) => legacy('tasks/result', { taskId: task.taskId })
  },
  'a resume token': {
    options: { resumeTokens: { after: 50 } },
    call: withToken(null),
    ask: ({ _meta: meta }) => withToken(meta.nextResumeToken)
  },
  requestState: {
    options: { disconnectAfter: 50 },
    call: modern('tools/call', LARGE),
    ask: ({ requestState }) => modern('tools/call', { ...LARGE, ...{ requestState } })
  }
}

/** Sends a request, and returns the result in what has come when the server has said all. */
async function resultOf(port: number, bytes: Buffer): Promise<Json> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')))
  socket.write(bytes)
  while (!text.includes('"result"') || !/\}\s*$/.test(text)) await once(socket, 'data')
  socket.destroy()
  return JSON.parse(text.slice(text.indexOf('{"jsonrpc"')).trim()).result
}

it.each(Object.entries(WAYS))(
  'of %s',
  async (_name, { options, call, ask }) => {
    const streams = { maxBytes: MAX_BYTES, ...options }
    const server = { variant: 'ours', endpoint: 'raw', streams } as const
    await withServer(server, async ({ port, resident, stats }) => {
      const result = await resultOf(port, call)
      while ((await stats()).bytes < SIZE) await sleep(20)
      const before = await resident()
      const sockets: Socket[] = []
      for (let n = 0; n < SOCKETS; n++) {
        const socket = await begin(port, ask(result))
        socket.pause()
        sockets.push(socket)
      }
      const grown = (await resident()) - before
      for (const socket of sockets) socket.destroy()
      expect(grown / MEBIBYTE).toBeLessThan((MAX_BYTES + ROOM) / MEBIBYTE)
    })
  },
  PATIENCE
)
