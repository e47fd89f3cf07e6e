// Takes the body of a request ahead of whoever reads it. The request is left as if nobody had read
// it: a body lies in it until somebody does.
import { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage } from 'node:http'
import type { Quota } from '../streams/quota.js'
import { parseOn, piecesIn } from './node-internals.js'
import {
  charsetOf,
  charsetOfMessage,
  INVALID,
  isParsed,
  isReadByOthers,
  type KnownBody,
  parseBody,
  parsedBody,
  type ReadBody,
  readBytes,
  readParsed,
  takeBuffered
} from './request-body.js'

export interface BodyLimits {
  /** Bytes up to which a body is read. */
  readonly limit: number
  /** Where the bytes of bodies that are waited for are counted. */
  readonly budget: Quota
  readonly owner: string
}

/** `no-room`: as many bytes wait as may. `gone`: its client has left before all had come. */
type Taken = Buffer | 'too-large' | 'no-room' | 'gone'

/** With the parsed JSON; `undefined`: invalid, too large, or left to whoever reads it. */
type Known = (body: KnownBody) => void

const UNKNOWN: KnownBody = { body: undefined }

/** `known` is not called if the client leaves before all has come. */
export function readAhead(req: IncomingMessage, limits: BodyLimits, known: Known): void {
  if (isParsed(req)) return known(parsedBody(req, limits.limit))
  const isReadable = !isReadByOthers(req) && !req.destroyed
  const charset = isReadable ? charsetOfMessage(req, limits.limit) : undefined
  if (charset === undefined) return known(UNKNOWN)
  takeBody(req, limits, taken => {
    if (taken === 'gone') return
    // Somebody in front may have begun to read it meanwhile.
    const isLeft = typeof taken === 'string' || req.readableFlowing !== null
    known(isLeft ? UNKNOWN : parseBody(taken, charset))
  })
}

/** To its end, whatever its `Content-Type`: nobody else gets it. */
export async function readBody(req: IncomingMessage, limits: BodyLimits): Promise<ReadBody> {
  if (isParsed(req)) return readParsed(req)
  if (req.readableDidRead) return INVALID
  const charset = charsetOf(req.headers)
  const taken =
    charset === undefined
      ? undefined
      : await new Promise<Taken>(resolve => takeBody(req, limits, resolve))
  // What lies there is dropped, and the rest of what is too large.
  req.resume()
  if (taken === undefined || charset === undefined) return { fault: 'body-unreadable', status: 415 }
  if (taken === 'too-large') return { fault: 'body-too-large', status: 413 }
  if (taken === 'no-room') return { fault: 'body-too-large', status: 503 }
  return taken === 'gone' ? INVALID : readBytes(taken, charset)
}

/** `done` is called in the async context of the caller. */
function takeBody(req: IncomingMessage, limits: BodyLimits, done: (taken: Taken) => void): void {
  if (isHere(req, limits)) return done(lyingIn(req, limits))
  // The rest of the packet is parsed in this turn: most bodies are whole by its end.
  setImmediate(look, req, limits, done)
}

function look(req: IncomingMessage, limits: BodyLimits, done: (taken: Taken) => void): void {
  // Also where its client has left meanwhile: what has come whole is run.
  if (isHere(req, limits)) done(lyingIn(req, limits))
  else if (req.destroyed) done('gone')
  else new ComingBody(req, limits, done).wait()
}

/** All of it, or more than is read. */
function isHere({ complete, readableLength }: IncomingMessage, { limit }: BodyLimits): boolean {
  return complete || readableLength > limit
}

function lyingIn(req: IncomingMessage, { limit }: BodyLimits): Buffer | 'too-large' {
  if (req.readableLength > limit) return 'too-large'
  const pieces = piecesIn(req) ?? takeAndPutBack(req)
  return pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces)
}

/** In runtimes of which we do not know where a request keeps what has come. */
function takeAndPutBack(req: IncomingMessage): Buffer[] {
  const bytes = takeBuffered(req)
  if (bytes === undefined) return []
  req.unshift(bytes)
  return [typeof bytes === 'string' ? Buffer.from(bytes) : bytes]
}

/** Bytes that a piece counts for at the least: each is an object. */
const SMALLEST_PIECE = 256

/** A body that is not whole by the end of the packet that its request has come in. */
class ComingBody {
  readonly #req: IncomingMessage
  readonly #limits: BodyLimits
  readonly #done: (taken: Taken) => void
  readonly #push: IncomingMessage['push']
  /** That of the request, for those behind us. */
  readonly #context = new AsyncResource('mcp-streams.body', { requireManualDestroy: true })
  #size: number
  #pieces = 0
  /** Bytes that the budget knows of. */
  #counted = 0
  #isOver = false

  constructor(req: IncomingMessage, limits: BodyLimits, done: (taken: Taken) => void) {
    this.#req = req
    this.#limits = limits
    this.#done = done
    this.#push = req.push
    this.#size = req.readableLength
  }

  /** Observes `push`, which consumes nothing. */
  wait(): void {
    const req = this.#req
    req.push = this.#observed
    req.once('close', this.#gone)
    if (!this.#count()) this.#settle('no-room')
    else if (this.#size >= req.readableHighWaterMark) parseOn(req)
  }

  readonly #observed = (chunk: Uint8Array | null, encoding?: BufferEncoding): boolean => {
    const hasRoom = this.#push.call(this.#req, chunk, encoding)
    if (chunk === null) {
      this.#settle(lyingIn(this.#req, this.#limits))
      return hasRoom
    }
    this.#size += chunk.length
    this.#pieces++
    const isTooLarge = this.#size > this.#limits.limit
    // The parser must not stop where the request may hold no more.
    if (!isTooLarge && this.#count()) return true
    // Later, as the parser would pause a socket that the endpoint has just resumed.
    process.nextTick(() => this.#settle(isTooLarge ? 'too-large' : 'no-room'))
    return hasRoom
  }

  readonly #gone = (): void => this.#settle('gone')

  /** `false`: there is no room for it. A client may send single bytes. */
  #count(): boolean {
    const { budget, owner } = this.#limits
    const held = Math.max(this.#size, (this.#pieces - 1) * SMALLEST_PIECE)
    if (!budget.take(owner, held - this.#counted)) return false
    this.#counted = held
    return true
  }

  #settle(taken: Taken): void {
    if (this.#isOver) return
    this.#isOver = true
    const { budget, owner } = this.#limits
    this.#req.push = this.#push
    this.#req.off('close', this.#gone)
    budget.release(owner, this.#counted)
    this.#context.runInAsyncScope(this.#done, undefined, taken)
  }
}
