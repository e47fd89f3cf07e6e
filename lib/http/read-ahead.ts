// Reads a request's body ahead of the endpoint, and leaves the request as if nobody had read it.
import { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage } from 'node:http'
import { type BodyLimits, CountedBody } from './counted-body.js'
import {
  isParsed,
  isReadByOthers,
  type KnownBody,
  mayBeMessage,
  parseBody,
  parsedBody,
  takeBuffered
} from './request-body.js'

interface ReadAheadOptions extends BodyLimits {
  /** With the parsed JSON; `undefined`: invalid, too large, or read by others. */
  readonly known: (body: KnownBody) => void
}

/** All bytes stay in the request for those behind. `known` is not called if the client leaves. */
export function readAhead(req: IncomingMessage, options: ReadAheadOptions): void {
  if (isParsed(req)) return options.known(parsedBody(req, options.limit))
  if (isReadByOthers(req) || req.destroyed || !mayBeMessage(req, options.limit))
    return options.known(UNKNOWN)
  new ReadAhead(req, options).begin()
}

const UNKNOWN: KnownBody = { body: undefined }

class ReadAhead {
  readonly #req: IncomingMessage
  readonly #options: ReadAheadOptions
  readonly #push: IncomingMessage['push']
  readonly #body: CountedBody
  /** Set once the body is waited for: the async context of the request, for those behind us. */
  #context: AsyncResource | undefined
  #isOver = false

  constructor(req: IncomingMessage, options: ReadAheadOptions) {
    this.#req = req
    this.#options = options
    this.#push = req.push
    this.#body = new CountedBody(options)
  }

  begin(): void {
    const req = this.#req
    const early = req.readableLength > 0 ? takeAndPutBack(req) : undefined
    if (early !== undefined) this.#body.add(early)
    if (req.complete || this.#body.isTooLarge) return this.#settle()
    this.#observe()
    // The rest of the packet is parsed in this turn: most bodies are whole by its end.
    setImmediate(() => this.#look())
  }

  /** Observing `push` consumes nothing. The parser must not stop at the high-water mark. */
  #observe(): void {
    const req = this.#req
    const push = this.#push
    const observed = (chunk: Uint8Array | null, encoding?: BufferEncoding): boolean => {
      const hasRoom = push.call(req, chunk, encoding)
      if (chunk !== null && this.#body.add(chunk)) return true
      if (this.#context !== undefined) {
        if (chunk === null) this.#settle()
        // Later, as the parser would pause a socket that the endpoint has just resumed.
        else process.nextTick(() => this.#settle())
      }
      return hasRoom
    }
    req.push = observed
  }

  #look(): void {
    const req = this.#req
    // Also where its client has left meanwhile: what has come whole is run.
    if (req.complete || this.#body.isTooLarge) return this.#settle()
    if (req.destroyed) return this.#dispose()
    // The body takes its time, so it is counted.
    this.#context = new AsyncResource('mcp-streams.body', { requireManualDestroy: true })
    req.once('close', this.#dispose)
    if (!this.#body.beginCounting()) this.#settle()
  }

  #settle(): void {
    if (this.#isOver) return
    const { known } = this.#options
    const bytes = this.#body.whole
    const context = this.#context
    this.#dispose()
    const body = bytes === undefined ? UNKNOWN : parseBody(bytes, this.#req.headers)
    if (context === undefined) known(body)
    else context.runInAsyncScope(known, undefined, body)
  }

  readonly #dispose = (): void => {
    if (this.#isOver) return
    this.#isOver = true
    this.#req.push = this.#push
    if (this.#body.dispose()) this.#req.removeListener('close', this.#dispose)
  }
}

function takeAndPutBack(req: IncomingMessage): Buffer | undefined {
  const bytes = takeBuffered(req)
  if (bytes === undefined) return undefined
  req.unshift(bytes)
  return typeof bytes === 'string' ? Buffer.from(bytes) : bytes
}
