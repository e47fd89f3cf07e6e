// A head that the endpoint makes in peace, once the wire has got another one: Node checks it as
// ever, and nothing of it leaves.
import { type IncomingMessage, type OutgoingHttpHeader, ServerResponse } from 'node:http'
import { callbackIn } from './chunk.js'
import { type HeadArguments, HEAD_METHODS, INTERIM_METHODS } from './node-internals.js'
import { foldHeaders } from './response-headers.js'
import type { ResponsePipeline } from './response-pipeline.js'

/**
 * What the wire's own head says of its body; the endpoint's goes with the endpoint's head. Not
 * `Transfer-Encoding`: once it has been removed, Node sends a body without a length and without
 * chunks, and a cut in it passes for its end.
 */
const OF_BODY = [
  'Content-Length',
  'Content-Encoding',
  'Content-Type',
  'ETag',
  'Last-Modified',
  'Trailer'
]

/** Removes what has been said of a body that does not leave. */
export function dropBodyHeaders(res: ServerResponse): void {
  for (const name of OF_BODY) res.removeHeader(name)
}

type Methods = Record<string, (...args: unknown[]) => unknown>

export class OwnHead {
  readonly #head: ServerResponse
  #status: number | undefined

  /** Takes over what the endpoint has said so far, before anything of ours is set. */
  constructor(req: IncomingMessage, res: ServerResponse) {
    this.#head = new ServerResponse(req)
    for (const [name, value] of Object.entries(res.getHeaders()))
      this.#head.setHeader(name, value as OutgoingHttpHeader)
    dropBodyHeaders(res)
  }

  /**
   * From now on the endpoint's words about its head are for this one. What somebody behind us has
   * patched stays theirs.
   */
  takeOver(pipeline: ResponsePipeline): void {
    const head = this.#head as unknown as Methods
    for (const name of HEAD_METHODS)
      pipeline.replace(name, (...args) => {
        const returned = head[name]?.(...args)
        return returned === this.#head ? pipeline.res : returned
      })
    // There is nobody to hear of interim answers any more.
    for (const name of INTERIM_METHODS)
      pipeline.replace(name, (...args) => {
        const callback = callbackIn(args)
        if (callback !== undefined) process.nextTick(callback)
      })
  }

  /** The status that the endpoint has given; `undefined` before it has. */
  get status(): number | undefined {
    return this.#status
  }

  setHeader(name: string, value: OutgoingHttpHeader): void {
    this.#head.setHeader(name, value)
  }

  getHeader(name: string): OutgoingHttpHeader | undefined {
    return this.#head.getHeader(name)
  }

  /** Throws what Node would throw. */
  write([status, reason, last]: HeadArguments, statusMessage: string | undefined): void {
    const hasReason = typeof reason === 'string'
    foldHeaders(hasReason ? last : (last ?? reason), (name, value) =>
      this.#head.setHeader(name, value)
    )
    const message = hasReason ? reason : statusMessage
    if (message === undefined) this.#head.writeHead(status)
    else this.#head.writeHead(status, message)
    this.#status = this.#head.statusCode
  }
}
