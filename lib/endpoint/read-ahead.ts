// Reads a request's body ahead of the endpoint, and leaves the request as if nobody had read it.
import { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage } from 'node:http'
import { Timer } from '../streams/timer.js'
import { type BodyLimits, CountedBody } from './counted-body.js'
import { isParsed, mayBeMessage, parseBody, parsedBody } from './request-body.js'

/**
 * Bytes that are waited for before those behind us are called: Node takes as many from a socket
 * that nobody reads.
 */
const PROMPT_BYTES = 64 * 1024
/** Milliseconds that they are waited for. */
const PROMPT = 25

export interface ReadAheadOptions extends BodyLimits {
  /**
   * Called with the parsed JSON body, or with `undefined` where there is none to be had: invalid
   * JSON, too large, already read by somebody. What the endpoint then says about such a body is its
   * own affair. `text` is the JSON that it was parsed from, where that is known.
   */
  readonly known: (body: unknown, text?: string) => void
  /**
   * Called instead, where the body takes its time: those behind us may refuse it, or read it,
   * meanwhile. `undefined`: none of them may be called before it is known, however long it takes.
   */
  readonly late?: ((body: LateBody) => void) | undefined
}

/** A body that is not there yet. */
export interface LateBody {
  /**
   * Hears the body, or `undefined`, as above, once its reader has had all of it but its end:
   * `pass` or `withhold` must be called. Not where its client leaves before.
   */
  onWhole: (body: unknown, text?: string) => void
  /** Whether it is of any concern still. */
  isWanted: () => boolean
  /** Whether the endpoint has begun to answer. */
  isAnswered: () => boolean
  /** Its request is over: nothing of it is wanted any more. */
  drop(): void
  /** Lets its reader have the end. */
  pass(): void
  /**
   * Its reader does not hear of its end, nor of anything else: the request is answered elsewhere.
   */
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
      // All of it is here, and Node will say so behind this tick: no timer for that.
      if (body.size === this.#length) setImmediate(() => this.#wait())
      else this.#wait()
    })
  }

  /**
   * The parser pushes what arrives into the request's buffer; looking over its shoulder consumes
   * nothing. While nobody behind us has been called it must not stop at the buffer's mark, for
   * nobody reads yet.
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
      // Not before the parser has heard that there is no room: it would stop a socket that the
      // endpoint has just started.
      process.nextTick(() => (isFine ? this.#becomeLate() : this.#settle()))
      return hasRoom
    }
    req.push = observed
  }

  get #length(): number {
    return Number(this.#req.headers['content-length'])
  }

  /** It takes its time, so it is counted. */
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

  /** All of it has come; its reader gets the end when it is known what it is. */
  #whole(): boolean {
    const req = this.#req
    if (!this.#isLate) {
      req.push = this.#push
      const hasRoom = req.push(null)
      this.#settle()
      return hasRoom
    }
    if (this.#isOver) return this.#push.call(req, null)
    // Who has answered need not read it.
    if (req.readableLength === 0 || this.isAnswered()) this.#settleLate()
    else {
      // Who has not begun to read may refuse it still.
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
    this.#parsed((body, text) =>
      this.#context.runInAsyncScope(this.#options.known, undefined, body, text)
    )
  }

  #settleLate(): void {
    if (this.#isOver) return this.pass()
    this.#parsed((body, text) => this.#context.runInAsyncScope(() => this.onWhole(body, text)))
  }

  #parsed(done: (body: unknown, text?: string) => void): void {
    const bytes = this.#body.whole
    this.#dispose()
    if (bytes === undefined) return done(undefined)
    parseBody(bytes, this.#req.headers, this.#options.limit, done)
  }

  /** It is not to be known, or not wanted any more: its reader has it alone. */
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
    // Node asks only then whether anybody listens; and the connection is good for a next request
    // only behind the end of this one.
    process.nextTick(() => req.resume())
  }
}

function takeAndPutBack(req: IncomingMessage): Buffer | undefined {
  const bytes = req.read() as Buffer | string | null
  if (bytes === null) return undefined
  req.unshift(bytes)
  return typeof bytes === 'string' ? Buffer.from(bytes) : bytes
}
