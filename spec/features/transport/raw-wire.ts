// A client over WebSocket that is written by hand: it says what the Streams draft says, and nothing
// of our own.

import { WebSocket } from 'ws'
import { closeLater } from '../../helpers/close-all.js'
import { Awaitable } from '../../helpers/gate.js'
import { callTool, initialize, initialized, request } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'

export class RawWire {
  readonly socket: WebSocket
  /** All that has come, the tags taken off: they are for clients that know them. */
  readonly messages = new Awaitable<Json>()
  readonly closed: Promise<void>

  constructor(socket: WebSocket) {
    this.socket = socket
    this.closed = new Promise(resolve => socket.once('close', () => resolve()))
    socket.on('message', data => this.messages.push(JSON.parse(String(data))))
    socket.on('error', () => undefined)
  }

  send(...messages: object[]): void {
    for (const message of messages) this.socket.send(JSON.stringify(message))
  }

  /** The first message that is like this, there or to come. */
  async find(like: (message: Json) => boolean): Promise<Json> {
    for (let n = 1; ; n++) {
      const message = await this.messages.nth(n)
      if (like(message)) return message
    }
  }

  /** The response to a request. */
  response(id: string | number | null): Promise<Json> {
    return this.find(message => message.id === id && message.method === undefined)
  }

  ask(id: string | number, method: string, params?: object): Promise<Json> {
    this.send(request(id, method, params))
    return this.response(id)
  }

  /** Calls a tool, and waits for the id of its stream. */
  async call(id: number, name: string, args: object): Promise<string> {
    const earlier = this.messages.length
    this.send(callTool(id, name, args, id))
    await this.messages.nth(earlier + 1)
    const create = await this.find(
      message => isCreate(message) && message.params._meta['express-mcp-streams/requestId'] === id
    )
    return create.params.stream.streamId
  }

  /** Gone without a word. */
  async drop(): Promise<void> {
    this.socket.terminate()
    await this.closed
  }
}

export const isCreate = (message: Json): boolean => message.method === 'notifications/stream/create'
export const isEnd = (message: Json): boolean => message.method === 'notifications/stream/end'

/** What a client sees of a message: without the tags. */
export function bare(message: Json): string {
  const copy = structuredClone(message)
  for (const part of [copy.params, copy.result, copy.error?.data]) if (part) delete part._meta
  return copy.method ?? (copy.error ? `error ${copy.error.code}` : `result of ${copy.id}`)
}

/** Open, and closed by `closeAll`. */
export async function openWire(url: string): Promise<RawWire> {
  const socket = new WebSocket(url, { perMessageDeflate: false })
  const wire = new RawWire(socket)
  closeLater(() => wire.drop())
  await new Promise((resolve, reject) => {
    socket.once('open', resolve)
    socket.once('error', reject)
  })
  return wire
}

export const DECLARED = { elicitation: {}, experimental: { streams: {} } }

/** Open and initialized. */
export async function openSession(url: string, capabilities: object = DECLARED): Promise<RawWire> {
  const wire = await openWire(url)
  wire.send(initialize('2025-11-25', capabilities))
  await wire.response('initialize')
  wire.send(initialized())
  return wire
}
