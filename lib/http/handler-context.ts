// `currentStream()`: the stream of the request that the running code works for, without plumbing.
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import { channel } from 'node:diagnostics_channel'
import { isObject, type Message } from '../protocol/json-rpc.js'
import { Waiting } from '../streams/due-queue.js'
import type { Stream } from '../streams/stream.js'
import type { StreamState } from '../streams/stream-types.js'
import { runOutsideBy } from '../streams/timer.js'

/** The stream behind the running handler. */
export interface CurrentStream {
  /** The id in the stream URL. Whoever has it may be able to read the stream: do not log it. */
  readonly id: string
  readonly state: StreamState
  /**
   * Aborts when the stream fails, is cancelled or is abandoned: nobody will read what the handler
   * returns. A client that merely loses its connection does not abort it.
   */
  readonly signal: AbortSignal
  /**
   * Closes the client's connection at will (SEP-1335): the stream goes on, the client comes back
   * after `retry` milliseconds. Default: one second, or option `retry` if that is less, but never
   * less than `resumeInterval.min`. Does nothing if the client has not shown that it comes back,
   * or while the process is about to end (`close()`): a client that is disconnected then might not
   * find it again.
   */
  disconnect(options?: { readonly retry?: number }): void
  /**
   * Hands a part of the result to a client that collects it with resume tokens (the Resuming
   * draft's "large result sets"): its next answer carries `result`, for a tool an object with
   * `content`. Parts come in order, each in an answer of its own, and before what the handler
   * returns. `false`: no client collects parts, so the part must be in what the handler returns.
   *
   * @throws {TypeError} where `result` is no object that JSON can hold.
   */
  partial(result: object): boolean
  /**
   * A link to a resource, for the `content` of a tool's result: a download URL on this endpoint
   * that serves the bytes, with ranges. It is good for the owner and the session of this call, or
   * for `anyone` who has it, until `ttl` is over, the session ends, or ten seconds after the whole
   * was first delivered to a request without `Range`. The resource is not opened before somebody
   * asks for it. Needs the option `resources`, whose limits hold. Also `link()` of the middleware,
   * which is there where `currentStream()` is `undefined`.
   *
   * @param uri what the option's `open` gets: an absolute URI of at most 4,096 characters.
   * @throws {TypeError} naming what is wrong with the URI or with an option.
   * @throws {Error} without the option `resources`, and in a call that has not come over HTTP.
   */
  link(uri: string, options?: LinkOptions): ResourceLink
}

/** Options of a link that a handler gives out. */
export interface LinkOptions {
  /**
   * Milliseconds for which it is valid, 1 to 2,147,483,647, unless it was delivered whole before.
   * Default: `ticketTtl` of the option `resources`.
   */
  readonly ttl?: number | undefined
  /**
   * The name under which a browser saves the file (`Content-Disposition`); of a path, its last
   * part. Default: the name that the resource has. A `redirect` is not renamed.
   */
  readonly filename?: string | undefined
  /**
   * Whoever has the link may open it, without a session and without credentials, and the
   * endpoint is not asked whether it admits them. Default: `false`, only the owner of the call, in
   * its session.
   */
  readonly anyone?: boolean | undefined
}

/** A content block of a tool's result (MCP, from 2025-06-18 on). */
// A type, not an interface: only then do the SDKs' types, which are open, take it.
export type ResourceLink = {
  readonly type: 'resource_link'
  /**
   * Where the bytes are: made from `publicUrl` of the option `resources`, else a reference of a
   * query only, which is relative to the URL of the endpoint as the client sees it, as `Link` is.
   */
  readonly uri: string
  /** `filename`, else the last part of the resource's URI. */
  readonly name: string
  /** By the extension of the resource's URI, else of the name; absent where that is unknown. */
  readonly mimeType?: string
}

export type MakeLink = CurrentStream['link']

/** Of a request, what has to be known to make links for it. */
export interface Caller {
  readonly owner: string
  readonly session: string | undefined
  readonly revision: string | undefined
  readonly req: { readonly originalUrl?: string; readonly url?: string | undefined }
  readonly messages: readonly Message[]
}

interface PartsCollector {
  /** `false`: no client collects it any more. */
  partial(text: string): boolean
}

interface Instance {
  readonly newId: () => string
}

/** What the code works for that is behind us; it may have to wait. */
export class HandlerContext extends Waiting implements CurrentStream {
  /** The instance that the request belongs to. */
  readonly instance: Instance
  #id: string | undefined
  /** Set when the response is taken. */
  stream: Stream | undefined
  collector: PartsCollector | undefined
  /** The response has been left alone: there is no stream behind this request. */
  isLeftAlone = false
  /** Its client is to be disconnected as soon as there is a connection. */
  protected pendingDisconnect: { retry: number | undefined } | undefined
  #abort: AbortController | undefined
  readonly #makeLink: MakeLink | undefined

  /** @param due called where it has waited. */
  constructor(instance: Instance, makeLink: MakeLink | undefined, due: () => void = NOTHING) {
    super(due)
    this.instance = instance
    this.#makeLink = makeLink
  }

  /** Made on demand: most JSON answers need none. */
  get id(): string {
    return (this.#id ??= this.instance.newId())
  }

  get state(): StreamState {
    return this.stream?.state ?? 'live'
  }

  /** The handler destroys or ends the socket of its request. `true`: that stays. */
  socketEnded?(socket: unknown): boolean

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.stream !== undefined) abortWith(this.stream.signal, this.#abort)
    }
    return this.#abort.signal
  }

  disconnect(options: { readonly retry?: number } = {}): void {
    if (typeof options !== 'object' || (options as object | null) === null)
      throw new TypeError('disconnect: options must be an object')
    const { retry, ...others } = options
    const [other] = Object.keys(others)
    if (other !== undefined) throw new TypeError(`disconnect: unknown option \`${other}\``)
    if (retry !== undefined && (!Number.isSafeInteger(retry) || retry < 0)) {
      throw new TypeError('disconnect: `retry` must be a whole number of milliseconds, 0 or more')
    }
    if (this.stream === undefined || this.stream.readers.count === 0)
      this.pendingDisconnect = { retry }
    else this.stream.readers.current?.disconnect(retry)
  }

  partial(result: object): boolean {
    const text = partialText(result)
    return this.collector?.partial(text) ?? false
  }

  link(uri: string, options?: LinkOptions): ResourceLink {
    if (this.#makeLink === undefined)
      throw new Error(
        'link: it needs the option `resources` of mcpStreams(), and a call that has come over HTTP'
      )
    return this.#makeLink(uri, options)
  }

  /** What was asked for before takes effect. Again when the call goes on in another stream. */
  goesOnIn(stream: Stream): void {
    this.stream = stream
    if (this.#abort !== undefined) abortWith(stream.signal, this.#abort)
  }

  connected(): void {
    if (this.pendingDisconnect !== undefined)
      this.stream?.readers.current?.disconnect(this.pendingDisconnect.retry)
  }
}

const NOTHING = (): void => undefined

/** A handler keeps one signal, although its call may go on in another stream. */
function abortWith(signal: AbortSignal, abort: AbortController): void {
  if (signal.aborted) return abort.abort(signal.reason)
  signal.addEventListener('abort', () => abort.abort(signal.reason), { once: true })
}

function partialText(result: object): string {
  const text = isObject(result) ? (JSON.stringify(result) as string | undefined) : undefined
  // An object with a `toJSON` may become anything.
  if (text?.startsWith('{') !== true) throw new TypeError('partial: `result` must be an object')
  return text
}

// One for all copies of this module: an application may load it as CJS and as ESM.
const STORAGE = Symbol.for('express-mcp-streams.context')
type Contexts = AsyncLocalStorage<HandlerContext | undefined>
const globals = globalThis as { [STORAGE]?: Contexts }
const storage: Contexts = (globals[STORAGE] ??= new AsyncLocalStorage())

/** Created outside of any call, so it leaves the async contexts of other packages, too. */
const NO_CALL = new AsyncResource('express-mcp-streams')
runOutsideBy(work => NO_CALL.runInAsyncScope(work))

/** Runs what is behind us. */
export function runInContext<T>(context: HandlerContext, work: () => T): T {
  return storage.run(context, work)
}

/** Runs what is in front of us, although what is behind may have called it. */
export function runOutsideContext<Args extends unknown[], T>(
  work: (...args: Args) => T,
  ...args: Args
): T {
  if (storage.getStore() === undefined) return work(...args)
  // Not `exit`: on Node 20 that turns the hooks of the whole process off and on again.
  return storage.run(undefined, work, ...args)
}

/** Whether the running code works for a request. */
export function isInContext(context: HandlerContext): boolean {
  return storage.getStore() === context
}

export function currentContext(): HandlerContext | undefined {
  return storage.getStore()
}

/**
 * The stream of the request that the running code works for; `undefined` outside of a handler, and
 * where the response is not a stream of ours. Follows the async context, so it works in tool
 * handlers without passing anything along.
 */
export function currentStream(): CurrentStream | undefined {
  const context = storage.getStore()
  return context === undefined || context.isLeftAlone ? undefined : context
}

/** Each request is published here as a context of its own, for whoever watches what is decided. */
export const requests = channel('mcp-streams:request')

/** Runs in the context of the request at hand, as long as somebody watches what is decided. */
export function inSameContext(work: () => void): () => void {
  return requests.hasSubscribers ? AsyncResource.bind(work) : work
}
