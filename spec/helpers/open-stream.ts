// Reads one HTTP response over node:http as it comes: raw bytes, SSE blocks, JSON-RPC messages, and
// how it ended.

import {
  request,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage
} from 'node:http'
import type { Socket } from 'node:net'
import { BlockSplitter, isMessage, type Block } from './blocks.js'
import { closeLater } from './close-all.js'

export type { Block } from './blocks.js'

/** Parsed JSON of the peer; specs say what they expect of it. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Json = any

/**
 * 'end': the response was complete. 'aborted': the peer closed (FIN) before it was. 'error': RST,
 * or another error of the socket. 'destroyed': we did it, by `destroy()` or `reset()`.
 */
export type Ending = 'end' | 'aborted' | 'error' | 'destroyed'

export interface OpenStreamOptions {
  /** Default: POST with a body, GET without. */
  method?: string
  headers?: Record<string, string | string[] | undefined>
  /** Strings and buffers are sent as they are, all else as JSON. */
  body?: unknown
  /** Ends it, whether its response has begun or not. */
  signal?: AbortSignal
}

/** The connection ended before a whole response head had arrived. */
export class NoResponseError extends Error {
  override name = 'NoResponseError'
  /** Bytes of the head that did arrive. */
  readonly bytes: number

  constructor(url: string, bytes: number, cause: Error) {
    const { code } = cause as NodeJS.ErrnoException
    super(
      `no complete response head from ${url}: ${cause.message} (${code}) after ${bytes} bytes`,
      { cause }
    )
    this.bytes = bytes
  }
}

export class OpenStream {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, as they stood on the wire. */
  readonly rawHeaders: string[]
  readonly response: IncomingMessage
  readonly request: ClientRequest
  readonly socket: Socket
  /** All blocks so far, whatever `next` and `take` have handed out. */
  readonly blocks: Block[] = []
  readonly ended: Promise<Ending>
  /** Undefined until the response has ended. */
  ending: Ending | undefined
  /** What ended it, when that was an error. */
  error: Error | undefined

  readonly #chunks: Buffer[] = []
  readonly #splitter = new BlockSplitter(block => this.blocks.push(block))
  readonly #waiting = new Set<() => void>()
  #nextIndex = 0
  #destroyed = false

  constructor(request: ClientRequest, response: IncomingMessage) {
    this.request = request
    this.response = response
    this.socket = response.socket
    this.status = response.statusCode!
    this.headers = response.headers
    this.rawHeaders = response.rawHeaders
    const isSse = /^text\/event-stream\b/i.test(this.headers['content-type'] ?? '')
    response.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk)
      if (isSse) this.#splitter.feed(chunk)
      this.#wake()
    })
    let socketError: Error | undefined
    request.on('error', error => (socketError ??= error))
    response.on('error', error => (this.error ??= socketError ?? error))
    this.ended = new Promise(resolve => {
      response.on('close', () => {
        this.error = socketError ?? this.error
        this.ending = this.#howItEnded(socketError)
        if (this.ending === 'end') this.error = undefined
        resolve(this.ending)
        this.#wake()
      })
    })
  }

  /** The body so far, transfer framing taken off. */
  get bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }

  /** The body so far as text. */
  get text(): string {
    return this.bytes.toString()
  }

  /**
   * The blocks so far that have data: what an EventSource would dispatch, primers with empty data
   * included.
   */
  get events(): Block[] {
    return this.blocks.filter(block => block.data !== undefined)
  }

  /**
   * JSON of the events so far that an MCP client reads: unnamed or named `message`, and not empty.
   */
  messages(): Json[] {
    return this.blocks.filter(isMessage).map(block => JSON.parse(block.data!))
  }

  /**
   * The next block, of those that pass `filter`; the others are skipped. Rejects when the response
   * ends first.
   */
  async next(filter: (block: Block) => boolean = () => true): Promise<Block> {
    for (;;) {
      while (this.#nextIndex < this.blocks.length) {
        const block = this.blocks[this.#nextIndex++]!
        if (filter(block)) return block
      }
      if (this.ending !== undefined) throw new Error(`no further block: ${this.#describe()}`)
      await new Promise<void>(resolve => this.#waiting.add(resolve))
    }
  }

  /** The next n blocks. Rejects when the response ends first. */
  async take(n: number, filter?: (block: Block) => boolean): Promise<Block[]> {
    const taken: Block[] = []
    while (taken.length < n) taken.push(await this.next(filter))
    return taken
  }

  /** The next JSON-RPC message (see `messages`). */
  async nextMessage(): Promise<Json> {
    return JSON.parse((await this.next(isMessage)).data!)
  }

  /** Waits for the end, however it comes, and returns the blocks that were not taken yet. */
  async untilEnd(): Promise<Block[]> {
    await this.ended
    const rest = this.blocks.slice(this.#nextIndex)
    this.#nextIndex = this.blocks.length
    return rest
  }

  /** The whole body as JSON. */
  async json(): Promise<Json> {
    await this.ended
    return JSON.parse(this.text)
  }

  /** Goes away as a closed browser tab does: FIN. */
  destroy(): void {
    this.#destroyed = true
    this.request.destroy()
  }

  /** Goes away with an RST. */
  reset(): void {
    this.#destroyed = true
    this.socket.resetAndDestroy()
  }

  /** Stops reading; once the buffers on the way are full, the server feels it. */
  pause(): void {
    this.response.pause()
  }

  resume(): void {
    this.response.resume()
  }

  #howItEnded(socketError: Error | undefined): Ending {
    if (this.response.complete && this.response.readableEnded && !socketError) return 'end'
    if (this.#destroyed) return 'destroyed'
    return socketError ? 'error' : 'aborted'
  }

  #describe(): string {
    const cause = this.error ? ` (${this.error.message})` : ''
    return `${this.status} response from ${this.request.path}: '${this.ending}'${cause} after ${this.blocks.length} blocks`
  }

  #wake(): void {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of waiting) wake()
  }
}

/**
 * Sends a request on a connection of its own and resolves with the head of the response; rejects
 * with NoResponseError when the connection ends before the head is complete. Closed by `closeAll`.
 */
export function openStream(
  url: string | URL,
  options: OpenStreamOptions = {}
): Promise<OpenStream> {
  const { body, signal } = options
  const isRaw = body === undefined || typeof body === 'string' || Buffer.isBuffer(body)
  const payload = isRaw ? body : JSON.stringify(body)
  const method = options.method ?? (payload === undefined ? 'GET' : 'POST')
  const headers: Record<string, string | string[]> = {}
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    if (value !== undefined) headers[name.toLowerCase()] = value
  }
  headers['accept'] ??=
    method === 'POST' ? 'application/json, text/event-stream' : 'text/event-stream'
  if (payload !== undefined) {
    headers['content-type'] ??= 'application/json'
    if (headers['transfer-encoding'] === undefined)
      headers['content-length'] ??= String(Buffer.byteLength(payload))
  }
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, headers, agent: false, ...(signal && { signal }) })
    const close = closeLater(() => outgoing.destroy())
    outgoing.once('close', () => void close())
    const fail = (error: Error) =>
      reject(new NoResponseError(String(url), outgoing.socket?.bytesRead ?? 0, error))
    // A second error, after the first has been reported, is of no interest.
    outgoing.on('error', () => {})
    outgoing.once('error', fail)
    outgoing.once('response', response => {
      outgoing.off('error', fail)
      resolve(new OpenStream(outgoing, response))
    })
    outgoing.end(payload)
  })
}
