// Follows HTTP/1.1 messages on a byte stream without changing them: where a head, a payload byte
// and a message end.

export interface MessageHead {
  /** Request line or status line. */
  startLine: string
  /** Names in lower case; repeated ones joined with a comma. */
  headers: Record<string, string>
  /** Bytes of the head, its blank line included. */
  length: number
}

export interface FramingListener {
  onHead?(head: MessageHead): void
  /**
   * Payload with chunked framing taken off; `offset` is where the slice starts in the raw message.
   */
  onPayload?(payload: Buffer, offset: number): void
}

const HEAD_END = Buffer.from('\r\n\r\n')

/**
 * One message, request or response. Feed it raw bytes; it takes only those that belong to its
 * message.
 */
export class MessageFraming {
  readonly #kind: 'request' | 'response'
  readonly #bodiless: boolean
  readonly #listener: FramingListener
  #state:
    | 'head'
    | 'length'
    | 'until-close'
    | 'chunk-size'
    | 'chunk-data'
    | 'chunk-end'
    | 'trailer'
    | 'done' = 'head'
  #buffered = Buffer.alloc(0)
  #line = ''
  #remaining = 0

  /** Raw bytes taken so far. */
  offset = 0
  head: MessageHead | undefined

  /**
   * `requestMethod` matters to responses only: the answer to HEAD has no body whatever its headers
   * say.
   */
  constructor(kind: 'request' | 'response', listener: FramingListener = {}, requestMethod = '') {
    this.#kind = kind
    this.#listener = listener
    this.#bodiless = requestMethod === 'HEAD'
  }

  get done(): boolean {
    return this.#state === 'done'
  }

  /** 100 Continue, 103 Early Hints: another head of the same exchange follows. */
  get interim(): boolean {
    return this.#kind === 'response' && / 1(?!01)\d\d/.test(this.head?.startLine.slice(8, 12) ?? '')
  }

  /**
   * Takes bytes up to the end of the message and returns how many it took; the rest is the next
   * message's.
   */
  feed(chunk: Buffer): number {
    let at = 0
    while (at < chunk.length && !this.done) at += this.#step(chunk.subarray(at))
    return at
  }

  #step(chunk: Buffer): number {
    switch (this.#state) {
      case 'head':
        return this.#takeHead(chunk)
      case 'length':
      case 'chunk-data':
      case 'until-close':
        return this.#takePayload(chunk)
      default:
        return this.#takeLine(chunk)
    }
  }

  #takeHead(chunk: Buffer): number {
    const before = this.#buffered.length
    this.#buffered = Buffer.concat([this.#buffered, chunk])
    const end = this.#buffered.indexOf(HEAD_END, Math.max(0, before - 3))
    if (end === -1) {
      this.offset += chunk.length
      return chunk.length
    }
    const length = end + HEAD_END.length
    const taken = length - before
    this.offset += taken
    this.head = parseHead(this.#buffered.toString('latin1', 0, end), length)
    this.#buffered = Buffer.alloc(0)
    this.#state = this.#bodyState(this.head)
    this.#listener.onHead?.(this.head)
    return taken
  }

  #bodyState(head: MessageHead) {
    const status = this.#kind === 'response' ? (head.startLine.split(' ')[1] ?? '') : ''
    if (status === '101') return 'until-close'
    if (this.#bodiless || status.startsWith('1') || status === '204' || status === '304')
      return 'done'
    if (/\bchunked\b/i.test(head.headers['transfer-encoding'] ?? '')) return 'chunk-size'
    if (head.headers['content-length'] !== undefined) {
      this.#remaining = Number(head.headers['content-length'])
      return this.#remaining > 0 ? 'length' : 'done'
    }
    return this.#kind === 'response' ? 'until-close' : 'done'
  }

  #takePayload(chunk: Buffer): number {
    const bounded = this.#state !== 'until-close'
    const payload = bounded ? chunk.subarray(0, this.#remaining) : chunk
    const start = this.offset
    this.offset += payload.length
    if (bounded) {
      this.#remaining -= payload.length
      if (this.#remaining === 0) this.#state = this.#state === 'length' ? 'done' : 'chunk-end'
    }
    this.#listener.onPayload?.(payload, start)
    return payload.length
  }

  /** Chunk sizes, the line end after a chunk, and trailers are lines. */
  #takeLine(chunk: Buffer): number {
    const end = chunk.indexOf(0x0a)
    const taken = end === -1 ? chunk.length : end + 1
    this.offset += taken
    this.#line += chunk.toString('latin1', 0, taken)
    if (end === -1) return taken
    const line = this.#line.trim()
    this.#line = ''
    if (this.#state === 'chunk-end') this.#state = 'chunk-size'
    else if (this.#state === 'trailer') this.#state = line === '' ? 'done' : 'trailer'
    else {
      this.#remaining = Number.parseInt(line, 16)
      this.#state = this.#remaining > 0 ? 'chunk-data' : 'trailer'
    }
    return taken
  }
}

function parseHead(text: string, length: number): MessageHead {
  const [startLine = '', ...lines] = text.split('\r\n')
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).trim().toLowerCase()
    const value = line.slice(colon + 1).trim()
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value
  }
  return { startLine, headers, length }
}
