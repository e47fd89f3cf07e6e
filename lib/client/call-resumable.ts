// Repeats a request with resume tokens until its result is there (Resuming draft).
import { now } from '../protocol/clock.js'
import { ASYNC_PREFERENCE } from '../protocol/prefer.js'
import { objectIn } from '../protocol/json-rpc.js'
import { FINITE, FUNCTION } from './options.js'
import { isTemporary } from './retrying.js'
import { pause, untilAborted } from './waiting.js'
import {
  anything,
  type CallOptions,
  checkCall,
  type RequestingClient,
  requestOnce,
  type ResultSchema,
  type ResumableResult
} from './requesting-client.js'

/** What a client sends: a method and its parameters. */
export interface ResumableRequest {
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

/** Options of {@link callResumable}. */
export interface CallResumableOptions<Result extends object = ResumableResult> extends CallOptions {
  /**
   * Called with each part of the result but the last, which is what the call returns. It is
   * awaited; if it throws or rejects, the call ends with that error. Default: none.
   */
  readonly onPartial?: ((result: Result) => unknown) | undefined
  /**
   * Milliseconds for which the server should hold one request open, 60,000 at the most; over HTTP
   * in whole seconds, rounded down. Default: the server's choice.
   */
  readonly wait?: number | undefined
  /** Ends the call: no further request is made, and the one that is open is cancelled. */
  readonly signal?: AbortSignal | undefined
  /**
   * Milliseconds for which one request is waited for. Default: the SDK's 60,000; with `wait`, ten
   * seconds more than that.
   */
  readonly timeout?: number | undefined
  /** After more than this many requests in a row without an answer, the call fails. Default: 5. */
  readonly maxRetries?: number | undefined
  /**
   * A schema for each result, as `client.request` takes it. Parts must pass it, too. Default: none,
   * everything passes.
   */
  readonly resultSchema?: ResultSchema<Result> | undefined
}

type Meta = Readonly<Record<string, unknown>>

/** Milliseconds that an answer may take beyond `wait`, for the way through the network. */
const ON_THE_WAY = 10_000
/** Milliseconds until a failed request is repeated; twice as many with each failure in a row. */
const SHORTEST_PAUSE = 250
/** Milliseconds from one request to the next; doubled with each empty answer in a row. */
const LEAST_INTERVAL = 50
const LONGEST_INTERVAL = 1000
const LONGEST_PAUSE = 5000

/**
 * Makes a request that the server may answer in parts, or later: as long as an answer carries a
 * `nextResumeToken`, the request is repeated with that token, and nothing else changed (the
 * Resuming draft). A request with a token runs nothing a second time, so it is made again if its
 * answer was lost; the first request, without a token, is not, unless `resumableFetch` does it.
 * Over HTTP it asks for tokens in a header (`Prefer: respond-async`), on other wires by
 * `express-mcp-streams/wait` in `_meta`. The first request has none of the draft's own members.
 *
 * ```ts
 * const result = await callResumable(client, { method: 'tools/call', params: { name: 'report' } },
 * { wait: 4000 })
 * ```
 *
 * The type of the result is that of `resultSchema`, or the one that the caller names; without a
 * schema, nothing checks it.
 *
 * @throws what `client.request` throws; {@link TypeError} for a bad option.
 */
export async function callResumable<Result extends object = ResumableResult>(
  client: RequestingClient,
  request: ResumableRequest,
  options: CallResumableOptions<Result> = {}
): Promise<Result> {
  checkCall('callResumable', [client, request, options], 'method', {
    onPartial: FUNCTION,
    wait: FINITE,
    timeout: FINITE,
    maxRetries: FINITE
  })
  const {
    onPartial = () => undefined,
    wait,
    signal,
    timeout = wait === undefined ? undefined : wait + ON_THE_WAY,
    maxRetries = 5,
    resultSchema = anything(),
    ...others
  } = options
  const call = new CallOnWire(
    wait === undefined ? ASYNC_PREFERENCE : `${ASYNC_PREFERENCE}, wait=${Math.floor(wait / 1000)}`
  )
  let resumeToken: string | undefined

  async function ask(): Promise<Result> {
    const { method, params } = request
    const asking = askingOf(client)
    const _meta = {
      ...(params?.['_meta'] as Meta | undefined),
      // On wires without headers.
      ...(asking === 'meta' && { [WAIT]: wait ?? null }),
      ...(resumeToken !== undefined && { resumeToken }),
      ...(hasWire(client) && call.mark)
    }
    const headers =
      asking === 'header' ? withPreference(others.headers, call.prefer) : others.headers
    const unwatch = watchRequest(client, call)
    try {
      return await requestOnce(
        client,
        { method, params: { ...params, _meta } },
        resultSchema,
        { ...others, headers, timeout },
        signal
      )
    } finally {
      unwatch()
    }
  }

  for (let failures = 0, empty = 0; ;) {
    const began = now()
    signal?.throwIfAborted()
    let result: Result
    try {
      result = await ask()
    } catch (error) {
      if (
        signal?.aborted ||
        resumeToken === undefined ||
        !mayPass(error) ||
        ++failures > maxRetries
      )
        throw error
      await pause(Math.min(SHORTEST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE), signal)
      continue
    }
    failures = 0
    const next = objectIn(objectIn(result)['_meta'])['nextResumeToken']
    // [Resuming] Clients SHOULD treat an absent nextResumeToken as the completion of the operation.
    if (typeof next !== 'string') return result
    resumeToken = next
    const isPart = hasContent(result)
    if (isPart) await untilAborted(signal, Promise.resolve(onPartial(result)))
    empty = isPart ? 0 : empty + 1
    const interval = Math.min(LEAST_INTERVAL * 2 ** empty, LONGEST_INTERVAL)
    await pause(Math.max(0, began + interval - now()), signal)
  }
}

const WAIT = 'express-mcp-streams/wait'

/** The headers of one request, as a record: version 2 of the SDK takes nothing else. */
function withPreference(given: unknown, preference: string): Readonly<Record<string, string>> {
  const headers = new Headers(given as Record<string, string> | undefined)
  headers.append('Prefer', preference)
  return Object.fromEntries(headers)
}

/** The code of version 1 of the SDK for a request without an answer in time. */
const REQUEST_TIMEOUT = -32001
/** Codes of version 2 of the SDK that are not about the network: another try does not help. */
const OF_CLIENT = /^(?:INVALID|UNSUPPORTED|NOT|CONNECTION_CLOSED)/

/** Whether an error may come from the network, so that the same request may succeed. */
function mayPass(error: unknown): boolean {
  const {
    code,
    status = code,
    issues
  } = Object(error) as { code?: unknown; status?: unknown; issues?: unknown }
  if (typeof status === 'string') return !OF_CLIENT.test(status)
  if (typeof status !== 'number') return issues === undefined
  return status === REQUEST_TIMEOUT || isTemporary(status)
}

/** Whether a result has anything but its token: a member that is not empty. */
function hasContent(result: object): boolean {
  return Object.entries(result).some(
    ([name, value]) => !OF_EVERY_RESULT.includes(name) && !isEmpty(value)
  )
}

const OF_EVERY_RESULT = ['_meta', 'resultType', 'ttlMs', 'cacheScope']

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.values(value).every(isEmpty)
}

/** A transport of the official SDK, as far as it matters here. */
interface Transport {
  send(message: unknown, options?: unknown): Promise<void>
  onmessage?: ((message: never, extra?: never) => void) | undefined
  /** Version 2: it takes headers for each message. */
  readonly hasPerRequestStream?: unknown
  /** Transports for HTTP have it. */
  readonly terminateSession?: unknown
  /** Version 1: the fetch of its requests. */
  _fetch?: typeof fetch | undefined
}

interface SentMessage {
  readonly params?: { readonly _meta?: Readonly<Record<PropertyKey, unknown>> }
}

/** Holds the call in `_meta`: the SDK copies a symbol, and `JSON.stringify` leaves it out. */
const CALL = Symbol('express-mcp-streams/call')

/** How a call asks for tokens: by a header (of the request or of `_fetch`), or in `_meta`. */
type Asking = 'header' | 'fetch' | 'meta'

/** One call and its requests, which are the same but for the resume token. */
class CallOnWire {
  readonly prefer: string
  #first: unknown
  #latest: unknown
  #hasSent = false

  constructor(prefer: string) {
    this.prefer = prefer
  }

  /** What is added to `_meta` of a request, so that its call is found when it is sent. */
  get mark(): object {
    return { [CALL]: this }
  }

  /** A request as it is sent: with the first progress token, and without an empty `_meta`. */
  outgoing(message: SentMessage): SentMessage {
    const { _meta, ...params } = message.params ?? {}
    const meta = Object.fromEntries(Object.entries(_meta ?? {}))
    this.#latest = meta['progressToken']
    if (!this.#hasSent) this.#first = this.#latest
    this.#hasSent = true
    if (this.#first !== undefined && this.#latest !== undefined) meta['progressToken'] = this.#first
    if (Object.keys(meta).length > 0) return { ...message, params: { ...params, _meta: meta } }
    const { params: _, ...others } = message
    return Object.keys(params).length > 0 ? { ...others, params } : others
  }

  /** A message as the client expects it: progress has the token of the latest request. */
  incoming<T>(message: T): T {
    const { method, params } = Object(message) as {
      method?: unknown
      params?: { progressToken?: unknown }
    }
    const isOurs =
      method === 'notifications/progress' &&
      this.#first !== undefined &&
      params?.progressToken === this.#first
    return isOurs ? { ...message, params: { ...params, progressToken: this.#latest } } : message
  }
}

function askingOf(client: object): Asking {
  const transport = transportOf(client)
  if (transport?.hasPerRequestStream === true) return 'header'
  return typeof transport?.terminateSession === 'function' ? 'fetch' : 'meta'
}

function hasWire(client: object): boolean {
  return transportOf(client) !== undefined
}

/** Changes the messages of a call on the client's transport, until the result is called. */
function watchRequest(client: object, call: CallOnWire): () => void {
  const transport = transportOf(client)
  if (transport === undefined) return () => undefined
  let wire = WIRES.get(transport)
  if (wire === undefined) WIRES.set(transport, (wire = new Wire(transport)))
  return wire.watch(call)
}

function transportOf(client: object): Transport | undefined {
  const { transport } = client as { transport?: Partial<Transport> | undefined }
  return typeof transport?.send === 'function' ? (transport as Transport) : undefined
}

const WIRES = new WeakMap<Transport, Wire>()

/** A transport on which calls have open requests. Without such a request, it is not changed. */
class Wire {
  readonly #transport: Transport
  readonly #open = new Set<CallOnWire>()
  /** The `Prefer` header of each request, by its body. */
  readonly #bodies = new Map<string, string>()
  #restore: () => void = () => undefined

  constructor(transport: Transport) {
    this.#transport = transport
  }

  watch(call: CallOnWire): () => void {
    if (this.#open.size === 0) this.#install()
    this.#open.add(call)
    return () => {
      this.#open.delete(call)
      if (this.#open.size === 0) this.#restore()
    }
  }

  #install(): void {
    const transport = this.#transport
    const asks = askingOf({ transport }) === 'fetch'
    const restores = [
      wrap(transport, 'send', send => (message, options) => {
        const call = (message as SentMessage).params?._meta?.[CALL] as CallOnWire | undefined
        if (call === undefined) return send.call(transport, message, options)
        const request = call.outgoing(message as SentMessage)
        if (!asks) return send.call(transport, request, options)
        const body = JSON.stringify(request)
        this.#bodies.set(body, call.prefer)
        return send.call(transport, request, options).finally(() => this.#bodies.delete(body))
      }),
      wrap(transport, 'onmessage', onmessage => (message, extra) => {
        let heard = message
        for (const call of this.#open) heard = call.incoming(heard)
        onmessage?.call(transport, heard, extra)
      })
    ]
    if (asks)
      restores.push(
        wrap(transport, '_fetch', own => (input, init) => {
          const prefer = typeof init?.body === 'string' ? this.#bodies.get(init.body) : undefined
          return (own ?? fetch)(
            input,
            prefer === undefined ? init : { ...init, headers: preferring(init, prefer) }
          )
        })
      )
    this.#restore = () => restores.forEach(restore => restore())
  }
}

function preferring(init: RequestInit | undefined, prefer: string): Headers {
  const headers = new Headers(init?.headers)
  headers.append('Prefer', prefer)
  return headers
}

/** Replaces a function. The result restores it, unless it has been replaced again since. */
function wrap<K extends 'send' | 'onmessage' | '_fetch'>(
  transport: Transport,
  name: K,
  wrapped: (original: Transport[K]) => NonNullable<Transport[K]>
): () => void {
  const isOwn = Object.hasOwn(transport, name)
  const original = transport[name]
  const ours = wrapped(original)
  transport[name] = ours
  return () => {
    if (transport[name] !== ours) return
    if (isOwn) transport[name] = original
    else delete (transport as Partial<Transport>)[name]
  }
}
