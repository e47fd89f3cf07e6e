// What the official client does not let one request decide: a header of its own, and the token that
// its progress is reported with.

/** A transport of the official SDK, as far as it matters here. */
interface Transport {
  send(message: unknown, options?: unknown): Promise<void>
  onmessage?: ((message: never, extra?: never) => void) | undefined
  /** Version 2: it takes headers with each message. */
  readonly hasPerRequestStream?: unknown
  /** Those of HTTP have it. */
  readonly terminateSession?: unknown
  /** Version 1: what it makes its requests with. */
  _fetch?: typeof fetch | undefined
}

interface SentMessage {
  readonly params?: { readonly _meta?: Readonly<Record<PropertyKey, unknown>> }
}

/**
 * Names the call in `_meta` of its requests. A symbol is copied along with the members, and never
 * written as JSON.
 */
const CALL = Symbol('express-mcp-streams/call')

/**
 * How a call can ask: in the head, given with the request or set below the transport; or in
 * `_meta`, where there are no heads.
 */
export type Asking = 'header' | 'fetch' | 'meta'

/**
 * A call, as its requests go out one after the other: all but the resume token stays as it was in
 * the first of them.
 */
export class CallOnWire {
  readonly prefer: string
  #first: unknown
  #latest: unknown
  #hasSent = false

  constructor(prefer: string) {
    this.prefer = prefer
  }

  /** What `_meta` of a request has besides its members, so that it is known on the wire. */
  get mark(): object {
    return { [CALL]: this }
  }

  /**
   * A request as it goes out: its progress token is that of the first one, and a `_meta` that says
   * nothing is left out.
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

  /** A message as the client expects it: progress by the token of the request that is open. */
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

/** How the calls of a client can ask. */
export function askingOf(client: object): Asking {
  const transport = transportOf(client)
  if (transport?.hasPerRequestStream === true) return 'header'
  return typeof transport?.terminateSession === 'function' ? 'fetch' : 'meta'
}

/** Whether the requests of a client's calls can be told on its wire. */
export function hasWire(client: object): boolean {
  return transportOf(client) !== undefined
}

/** Looks after a request of a call on the client's wire; what it returns ends that. */
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

/** A transport while calls have a request open on it. Between them it is as it was. */
class Wire {
  readonly #transport: Transport
  readonly #open = new Set<CallOnWire>()
  /** The bodies whose requests ask in their heads, and what they say there. */
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
 * Puts a function of ours in the place of a member, and gives it back unless somebody else has
 * taken it since.
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
