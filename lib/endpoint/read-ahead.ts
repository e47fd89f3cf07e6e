// Reads a request's body ahead of the endpoint, and leaves the request as if nobody had read it.
import { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage } from 'node:http'
import { Timer } from '../streams/timer.js'
import { type BodyLimits, CountedBody } from './counted-body.js'
import { isParsed, type KnownBody, mayBeMessage, parseBody, parsedBody } from './request-body.js'

/**
 * Bytes that are waited for before those behind us are called: Node takes as many from a socket
 * that nobody reads.
 */
const PROMPT_BYTES = 64 * 1024
/** Milliseconds that they are waited for. */
const PROMPT = 25

export interface ReadAheadOptions extends BodyLimits {
  /**
   * Called with the parsed JSON body, or with `undefined` if there is none to be had: invalid JSON,
   * too large, already read. What the endpoint then says about such a body is its own affair.
   * `text` is the JSON that it was parsed from, where that is known.
   */
  readonly known: (body: unknown, text?: string) => void
  /**
   * Called instead if the body takes its time, so that those behind us may refuse it, or read it,
   * meanwhile. `undefined`: they may not be called before the body is known, however long it takes.
   */
  readonly late?: ((body: LateBody) => void) | undefined
}

/** A body that is not there yet. */
export interface LateBody {
  /**
   * Called with the body, or `undefined`, as above, once its reader has had all of it but its end;
   * `pass` or `withhold` must follow. Not called if the client leaves before.
   */
  onWhole: (body: unknown, text?: string) => void
  /** Whether the body is still wanted. */
  isWanted: () => boolean
  /** Whether the endpoint has begun to answer. */
  isAnswered: () => boolean
  /** Its request is over: nothing of it is wanted any more. */
  drop(): void
  /** Lets its reader have the end. */
  pass(): void
  /** Keeps its end, and all other events, from its reader: the request is answered elsewhere. */
  withhold(): void
}

/**
 * The bytes stay in the request: a parser behind us, or an endpoint that reads the raw request,
 * finds all of them.
 */
export function readAhead(req: IncomingMessage, options: ReadAheadOptions): void {
  if (isParsed(req)) {
    const { body, text } = parsedBody(req, options.limit)
    return options.known(body, text)
  }
  if (req.readableDidRead || req.destroyed || !mayBeMessage(req, options.limit))
    return options.known(undefined)
  new ReadAhead(req, options).begin()
}

const OF_READERS = ['data', 'end', 'readable', 'close', 'error', 'aborted', 'pause', 'resume']

type AnyListener = (...args: unknown[]) => void

class ReadAhead implements LateBody {
  onWhole: LateBody['onWhole'] = () => this.pass()
  isWanted: () => boolean = () => true
  isAnswered: () => boolean = () => false
  readonly #req: IncomingMessage
  readonly #options: ReadAheadOptions
  // What runs behind us belongs to the async context of the request. (Not `AsyncResource.bind`,
  // which costs more than all the rest of a small call.)
  readonly #context = new AsyncResource('mcp-streams.body', { requireManualDestroy: true })
  readonly #push: IncomingMessage['push']
  readonly #body: CountedBody
  #isLate = false
  #isOver = false
  #timer: Timer | undefined
  #inFront: ReadonlyMap<string, readonly unknown[]> | undefined

  constructor(req: IncomingMessage, options: ReadAheadOptions) {
    this.#req = req
    this.#options = options
    this.#push = req.push
    this.#body = new CountedBody(options)
  }

  begin(): void {
    const req = this.#req
    const early = req.readableLength > 0 ? takeAndPutBack(req) : undefined
    const body = this.#body
    if (early !== undefined) body.add(early)
    if (req.complete || body.isTooLarge) return this.#settle()
    this.#observe()
    // Most bodies come with their head, and are whole by then.
    process.nextTick(() => {
      if (this.#isOver) return
      // All of it is here, and Node reports the end after this tick: that needs no timer.
      if (body.size === this.#length) setImmediate(() => this.#wait())
      else this.#wait()
    })
  }

  /**
   * The parser pushes what arrives into the request's buffer; observing `push` consumes nothing.
   * Until those behind us have been called, the parser must not stop at the high-water mark, as
   * nothing reads yet.
   */
  #observe(): void {
    const req = this.#req
    const push = this.#push
    const mayBeLate = this.#options.late !== undefined
    const isPromptPast = (): boolean => mayBeLate && this.#body.size > PROMPT_BYTES
    const observed = (chunk: Buffer | null, encoding?: BufferEncoding): boolean => {
      if (chunk === null) return this.#whole()
      const hasRoom = push.call(req, chunk, encoding)
      if (this.#isOver) return hasRoom
      const isFine = this.#body.add(chunk) && this.isWanted()
      if (this.#isLate) {
        if (!isFine) this.#giveUp()
        return hasRoom
      }
      if (isFine && !isPromptPast()) return true
      // After the parser has been told that there is no room: else it would pause a socket that the
      // endpoint has just resumed.
      process.nextTick(() => (isFine ? this.#becomeLate() : this.#settle()))
      return hasRoom
    }
    req.push = observed
  }

  get #length(): number {
    return Number(this.#req.headers['content-length'])
  }

  /** The body takes its time, so it is counted. */
  #wait(): void {
    const req = this.#req
    if (this.#isOver || this.#isLate) return
    if (req.destroyed) return this.#dispose()
    req.once('close', this.#dispose)
    if (!this.#body.beginCounting()) return this.#settle()
    if (this.#options.late === undefined) return
    if (this.#length > PROMPT_BYTES) return this.#becomeLate()
    this.#timer = new Timer(() => this.#becomeLate())
    this.#timer.start(PROMPT)
  }

  #becomeLate(): void {
    const req = this.#req
    if (this.#isOver || this.#isLate || req.destroyed) return
    this.#isLate = true
    this.#timer?.stop()
    this.#inFront = new Map(OF_READERS.map(event => [event, req.rawListeners(event)]))
    this.#context.runInAsyncScope(() => this.#options.late?.(this))
  }

  /** All of it has come; its reader gets the end only when it is known what the body is. */
  #whole(): boolean {
    const req = this.#req
    if (!this.#isLate) {
      req.push = this.#push
      const hasRoom = req.push(null)
      this.#settle()
      return hasRoom
    }
    if (this.#isOver) return this.#push.call(req, null)
    // An endpoint that has answered need not read it.
    if (req.readableLength === 0 || this.isAnswered()) this.#settleLate()
    else {
      // An endpoint that has not read all of it may still refuse it.
      const { read } = req
      const readLast = (size?: number): unknown => {
        const chunk = read.call(req, size) as unknown
        if (req.readableLength === 0) {
          req.read = read
          process.nextTick(() => this.#settleLate())
        }
        return chunk
      }
      req.read = readLast
    }
    return true
  }

  #settle(): void {
    if (this.#isOver) return
    const { body, text } = this.#parsed()
    this.#context.runInAsyncScope(this.#options.known, undefined, body, text)
  }

  #settleLate(): void {
    if (this.#isOver) return this.pass()
    const { body, text } = this.#parsed()
    this.#context.runInAsyncScope(() => this.onWhole(body, text))
  }

  #parsed(): KnownBody {
    const bytes = this.#body.whole
    this.#dispose()
    return bytes === undefined ? { body: undefined } : parseBody(bytes, this.#req.headers)
  }

  /** The body is too large, or not wanted any more: only its reader gets it. */
  #giveUp(): void {
    this.#dispose()
    this.#req.push = this.#push
  }

  readonly #dispose = (): void => {
    if (this.#isOver) return
    this.#isOver = true
    this.#timer?.stop()
    if (this.#body.dispose()) this.#req.removeListener('close', this.#dispose)
  }

  drop(): void {
    this.#dispose()
  }

  pass(): void {
    const req = this.#req
    req.push = this.#push
    if (!req.destroyed) req.push(null)
  }

  withhold(): void {
    const req = this.#req
    req.unpipe()
    for (const [event, inFront] of this.#inFront ?? [])
      for (const listener of req.rawListeners(event))
        if (!inFront.includes(listener)) req.removeListener(event, listener as AnyListener)
    this.pass()
    // A tick later, when Node has seen that nothing listens any more. The connection can serve a
    // next request only after the end of this one.
    process.nextTick(() => req.resume())
  }
}

function takeAndPutBack(req: IncomingMessage): Buffer | undefined {
  const bytes = req.read() as Buffer | string | null
  if (bytes === null) return undefined
  req.unshift(bytes)
  return typeof bytes === 'string' ? Buffer.from(bytes) : bytes
}
