// Sets what the official client does not let its caller set for one request: a header, and the
// progress token.

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

/**
 * The key under which `_meta` of a request holds its call. The SDK copies a symbol with the other
 * members, and `JSON.stringify` leaves it out.
 */
const CALL = Symbol('express-mcp-streams/call')

/**
 * How a call can ask for tokens: by a header that is given with the request (`header`) or added by
 * the transport's fetch (`fetch`), or in `_meta` on wires without headers.
 */
export type Asking = 'header' | 'fetch' | 'meta'

/**
 * One call and its requests, one after the other. The requests must be the same but for the resume
 * token.
 */
export class CallOnWire {
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

  /**
   * A request as it is sent: with the progress token of the first request, and without an empty
   * `_meta`.
   */
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

/** How the calls of a client can ask for tokens. */
export function askingOf(client: object): Asking {
  const transport = transportOf(client)
  if (transport?.hasPerRequestStream === true) return 'header'
  return typeof transport?.terminateSession === 'function' ? 'fetch' : 'meta'
}

/** Whether a client has a transport that `watchRequest` can change. */
export function hasWire(client: object): boolean {
  return transportOf(client) !== undefined
}

/** Changes the messages of a call on the client's transport, until the result is called. */
export function watchRequest(client: object, call: CallOnWire): () => void {
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

/**
 * Replaces a function of a transport. The result restores it, unless somebody else has replaced it
 * since.
 */
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
