// The head of a captured response: the one that the endpoint gives, and the one that is sent.
import {
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  OutgoingMessage,
  type ServerResponse,
  STATUS_CODES
} from 'node:http'
import { callbackIn } from './chunk.js'
import {
  type HeadArguments,
  HEAD_METHODS,
  INTERIM_METHODS,
  type ResponseMethods
} from './node-internals.js'
import {
  foldHeaders,
  headerEntries,
  type HeaderEntry,
  headerIn,
  headersIn,
  isPlainEncoding,
  stringOf,
  validateHead,
  withDirectives
} from './response-headers.js'
import type { Layer, PatchedResponse } from './patched-response.js'
import { EVENT_STREAM, isEventStreamType, typeIn } from '../protocol/media-types.js'

const NO_ENTRIES: readonly HeaderEntry[] = []

/** The endpoint's head, if the wire has had another one before. */
export interface LateHead {
  readonly status: number
  readonly header: (name: string) => string | undefined
  readonly headers: () => OutgoingHttpHeaders
}

/** The head that an endpoint gives. */
export class ResponseHead {
  readonly status: number
  /** Headers that `writeHead` was called with, in any of the forms that it takes. */
  readonly given: unknown
  /** Its `Content-Type`. */
  readonly type: string | undefined
  /** The media type in it. */
  readonly mediaType: string
  /** An event stream with status 200, not encoded, whose client is still there. */
  readonly isStream: boolean
  /** The session that it names. */
  readonly sessionId: string | undefined
  readonly #res: ServerResponse
  readonly #getHeader: ResponseMethods['getHeader']

  /** @throws what Node would throw when the head is sent, where it could not be caught. */
  constructor({ res, methods }: PatchedResponse, args: HeadArguments) {
    const [status, reason] = args
    this.status = Number(status)
    this.given = args.length === 1 ? undefined : headersIn(args)
    this.#res = res
    this.#getHeader = methods.getHeader
    const entries = this.given === undefined ? NO_ENTRIES : headerEntries(this.given)
    let type: OutgoingHttpHeader | undefined
    let encoding: OutgoingHttpHeader | undefined
    let sessionId: OutgoingHttpHeader | undefined
    for (const [name, value] of entries)
      switch (name.toLowerCase()) {
        case 'content-type':
          type ??= value
          break
        case 'content-encoding':
          encoding ??= value
          break
        case 'mcp-session-id':
          sessionId ??= value
      }
    this.type = this.#told(type, 'content-type')
    this.sessionId = this.#told(sessionId, 'mcp-session-id')
    this.mediaType = typeIn(this.type)
    const mayBeStream = this.status === 200 && this.mediaType === EVENT_STREAM && !res.destroyed
    const coding = mayBeStream ? this.#told(encoding, 'content-encoding') : undefined
    this.isStream = mayBeStream && (coding === undefined || isPlainEncoding(coding))
    if (!this.isStream) return
    const message = typeof reason === 'string' ? reason : res.statusMessage
    validateHead(message, this.given, entries)
  }

  /** A header, by its lower-case name. */
  header(name: string): string | undefined {
    return this.#told(headerIn(this.given, name), name)
  }

  /** @param given to `writeHead`. Default: what was set before. */
  #told(given: OutgoingHttpHeader | undefined, name: string): string | undefined {
    const value = given ?? this.#getHeader.call(this.#res, name)
    return typeof value === 'string' || value === undefined ? value : stringOf(value)
  }
}

/** Whether a response that has no head yet would be an event stream with it. */
export function looksLikeStream(
  res: ServerResponse,
  contentType: OutgoingHttpHeader | undefined
): boolean {
  return Number(res.statusCode) === 200 && isEventStreamType(stringOf(contentType))
}

const UNTRANSFORMED = ['no-transform']

/** The `Cache-Control` that `compression` behind us sees: it does not touch `no-transform`. */
export function untransformed(cacheControl: OutgoingHttpHeader | undefined): string {
  return withDirectives(cacheControl, UNTRANSFORMED)
}

export class CapturedHead {
  /** The endpoint has given its head. */
  isGiven = false
  /** The endpoint's head, never sent: the response was taken before the endpoint had begun. */
  own: OwnHead | undefined
  readonly #patched: PatchedResponse

  constructor(patched: PatchedResponse) {
    this.#patched = patched
  }

  accept([status, reason]: HeadArguments): void {
    const { res } = this.#patched
    // As Node does it: what is set after `writeHead` is not sent.
    res.statusCode = Number(status)
    res.statusMessage =
      typeof reason === 'string' ? reason : res.statusMessage || (STATUS_CODES[status] ?? 'unknown')
    this.isGiven = true
  }

  /** Takes the endpoint's head, which is not sent, as the wire has had another one. */
  acceptLate(args: HeadArguments): LateHead {
    const own = this.own as OwnHead
    // Throws what Node would throw at a header.
    foldHeaders(headersIn(args), own.made)
    own.isWritten = true
    this.accept(args)
    return {
      status: this.#patched.res.statusCode,
      header: name => stringOf(own.getHeader(name)),
      headers: () => own.made.getHeaders()
    }
  }

  /** Sends a head of ours in the place of the one that the endpoint has given. */
  replace(wire: Layer, setHeaders: () => void, status: number): void {
    this.isGiven = true
    dropBodyHeaders(this.#patched.res)
    setHeaders()
    wire.writeHead([status, STATUS_CODES[status] ?? ''])
  }

  sendEarly(wire: Layer, setHeaders: () => void, status: number): void {
    const { res } = this.#patched
    // Plain properties, which Node does not read again once the head is out.
    const { statusCode, statusMessage } = res
    const own = new OwnHead(res)
    setHeaders()
    wire.writeHead([status])
    res.statusCode = statusCode
    res.statusMessage = statusMessage
    this.own = own
    this.#patched.hasHeaders = true
    own.takeOver(this.#patched)
  }
}

/** Headers about a body that is not sent. Without `Transfer-Encoding`, a cut looks like its end. */
const OF_BODY = [
  'Content-Length',
  'Content-Encoding',
  'Content-Type',
  'ETag',
  'Last-Modified',
  'Trailer'
]

function dropBodyHeaders(res: ServerResponse): void {
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

/** What the handler sets after our head was sent: validated by Node, then discarded. */
class OwnHead {
  /** The headers so far. `#made` is made on demand: most endpoints set no more for a long time. */
  readonly #headers: readonly (readonly [string, OutgoingHttpHeader | undefined])[]
  #made: OutgoingMessage | undefined
  isWritten = false

  /** Takes over what the endpoint has set so far, before anything of ours is set. */
  constructor(res: ServerResponse) {
    this.#headers = Object.entries(res.getHeaders())
    dropBodyHeaders(res)
  }

  /** Directs head methods here. One that has been patched behind us stays as it is. */
  takeOver(patched: PatchedResponse): void {
    ;(patched.res as Headed)[OWN_HEAD] = this
    for (const [name, method] of METHODS) patched.replace(name, method)
  }

  get made(): OutgoingMessage {
    if (this.#made !== undefined) return this.#made
    const made = new OutgoingMessage()
    for (const [name, value] of this.#headers) made.setHeader(name, value as OutgoingHttpHeader)
    return (this.#made = made)
  }

  setHeader(name: string, value: OutgoingHttpHeader): void {
    this.made.setHeader(name, value)
  }

  getHeader(name: string): OutgoingHttpHeader | undefined {
    return this.made.getHeader(name)
  }
}
