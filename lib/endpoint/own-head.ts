// The head that the endpoint makes after the wire has had another one: Node checks it as always,
// but nothing of it is sent.
import { type IncomingMessage, type OutgoingHttpHeader, ServerResponse } from 'node:http'
import { callbackIn } from './chunk.js'
import { type HeadArguments, HEAD_METHODS, INTERIM_METHODS } from './node-internals.js'
import { foldHeaders, headersIn } from './response-headers.js'
import type { ResponsePipeline } from './response-pipeline.js'

/**
 * Headers about the endpoint's body, which is not the one that is sent. Not `Transfer-Encoding`:
 * once it has been removed, Node sends a body without a length and without chunks, and a cut in it
 * looks like its end.
 */
const OF_BODY = [
  'Content-Length',
  'Content-Encoding',
  'Content-Type',
  'ETag',
  'Last-Modified',
  'Trailer'
]

/** Removes the headers about a body that is not sent. */
export function dropBodyHeaders(res: ServerResponse): void {
  for (const name of OF_BODY) res.removeHeader(name)
}

type Methods = Record<string, (...args: unknown[]) => unknown>

const OWN_HEAD = Symbol('express-mcp-streams.own-head')

interface Headed extends ServerResponse {
  [OWN_HEAD]: OwnHead
}

/** The same functions for every response: a call that waits should not cost as many closures. */
const METHODS = new Map([
  ...HEAD_METHODS.map(
    name =>
      [
        name,
        function (this: Headed, ...args: unknown[]) {
          const head = this[OWN_HEAD].made as unknown as Methods
          const returned = head[name]?.(...args)
          return returned === head ? this : returned
        }
      ] as const
  ),
  // After a final head, interim responses cannot be sent any more.
  ...INTERIM_METHODS.map(
    name =>
      [
        name,
        (...args: unknown[]) => {
          const callback = callbackIn(args)
          if (callback !== undefined) process.nextTick(callback)
        }
      ] as const
  )
])

export class OwnHead {
  readonly #req: IncomingMessage
  /** The headers so far. `#made` is made on demand: most endpoints set no more for a long time. */
  readonly #headers: readonly (readonly [string, OutgoingHttpHeader | undefined])[]
  #made: ServerResponse | undefined
  #status: number | undefined

  /** Takes over what the endpoint has set so far, before anything of ours is set. */
  constructor(req: IncomingMessage, res: ServerResponse) {
    this.#req = req
    this.#headers = Object.entries(res.getHeaders())
    dropBodyHeaders(res)
  }

  /**
   * From now on what the endpoint does to its head is done to this one. A method that has been
   * patched behind us stays as it is.
   */
  takeOver(pipeline: ResponsePipeline): void {
    ;(pipeline.res as Headed)[OWN_HEAD] = this
    for (const [name, method] of METHODS) pipeline.replace(name, method)
  }

  get made(): ServerResponse {
    if (this.#made !== undefined) return this.#made
    const made = new ServerResponse(this.#req)
    for (const [name, value] of this.#headers) made.setHeader(name, value as OutgoingHttpHeader)
    return (this.#made = made)
  }

  /** The status that the endpoint has given; `undefined` before it has. */
  get status(): number | undefined {
    return this.#status
  }

  setHeader(name: string, value: OutgoingHttpHeader): void {
    this.made.setHeader(name, value)
  }

  getHeader(name: string): OutgoingHttpHeader | undefined {
    return this.made.getHeader(name)
  }

  /** Throws what Node would throw. */
  write(args: HeadArguments, statusMessage: string | undefined): void {
    const [status, reason] = args
    foldHeaders(headersIn(args), (name, value) => this.made.setHeader(name, value))
    const message = typeof reason === 'string' ? reason : statusMessage
    if (message === undefined) this.made.writeHead(status)
    else this.made.writeHead(status, message)
    this.#status = this.made.statusCode
  }
}
