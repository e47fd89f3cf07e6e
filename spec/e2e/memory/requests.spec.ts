// Large requests to tools that run on, from clients that leave or get something in the meantime:
// what is held is bounded, and no more than is said.

import { expect, it } from '@jest/globals'
import {
  begin,
  MEBIBYTE,
  type PlainOptions,
  requestBytes,
  type ServerOptions,
  withServer
} from './served.js'

const SIZE = 3.9 * MEBIBYTE
const PATIENCE = 120_000
/** More than two runs of the same process differ by. */
const MARGIN = 32 * MEBIBYTE
const MAX_BYTES = 64 * MEBIBYTE

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'x', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {
    extensions: { 'io.modelcontextprotocol/tasks': {} }
  }
}
const text = 'a'.repeat(SIZE)

const call = (params: object, headers: Record<string, string> = {}): Buffer => {
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 't', ...params } }
  return requestBytes(JSON.stringify(message), headers)
}
const modern = (args: object): Buffer =>
  call(
    { arguments: args, _meta: META },
    { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 't' }
  )

interface Load {
  readonly count: number
  readonly request: Buffer
  /** The clients wait for their answers. Default: they leave. */
  readonly areWaiting?: boolean
}

/** What the process holds more once so many clients have asked. */
async function growth(options: ServerOptions, load: Load): Promise<number> {
  return withServer(options, async ({ port, held, stats }) => {
    const first = await begin(port, call({ arguments: {} }))
    first.destroy()
    const before = await held()
    const sockets = []
    for (let n = 0; n < load.count; n++) {
      const socket = await begin(port, load.request)
      if (load.areWaiting === true) sockets.push(socket)
      else socket.destroy()
    }
    const grown = (await held()) - before
    for (const socket of sockets) socket.destroy()
    if (options.variant === 'ours')
      expect((await stats()).bytes).toBeLessThanOrEqual(MAX_BYTES + MAX_BYTES / 4)
    return grown
  })
}

const both = async (
  endpoint: ServerOptions['endpoint'],
  load: Load,
  streams: PlainOptions = {}
): Promise<[bare: number, ours: number]> => {
  const options = { endpoint, limit: '5mb', streams: { maxBytes: MAX_BYTES, ...streams } }
  return [
    await growth({ ...options, variant: 'bare' }, load),
    await growth({ ...options, variant: 'ours' }, load)
  ]
}

it(
  'of an endpoint that keeps nothing of a request, nothing is held',
  async () => {
    const request = call({ arguments: { hang: true }, _meta: { text } })
    const [bare, ours] = await both('raw', { count: 40, request })
    expect(ours).toBeLessThan(bare + MARGIN)
  },
  PATIENCE
)

it(
  'of an endpoint that keeps the request while its tool runs, as much is held as may be',
  async () => {
    const [bare, ours] = await both('sdk', {
      count: 40,
      request: call({ arguments: { hang: true, text } })
    })
    expect(ours).toBeLessThan(bare + MAX_BYTES + MARGIN)
  },
  PATIENCE
)

it.each<[string, PlainOptions, most: number]>([
  ['is answered by a state to come again by', { disconnectAfter: 50 }, 0],
  ['may become a task, while its client waits', { tasks: {} }, MAX_BYTES / 4]
])(
  'of a call that %s, no more is held than further rounds need',
  async (_how, streams, most) => {
    const load = {
      count: 20,
      request: modern({ hang: true, text }),
      areWaiting: 'tasks' in streams
    }
    const [bare, ours] = await both('raw', load, streams)
    expect(ours).toBeLessThan(bare + most + MARGIN)
  },
  PATIENCE
)
