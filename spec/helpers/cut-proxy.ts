// A TCP proxy that cuts the wire after the nth byte or the nth SSE event, by FIN, by RST or by
// silence.
//
// It changes no byte. It follows the HTTP/1.1 framing that passes (content-length, chunked, until
// close; no pipelining, no content-encoding) only to tell one request from the next on a kept-alive
// connection, and to count the events of a response with chunked framing taken off. An event's last
// byte is its blank line's last byte: the CRLF that closes the chunk around it stays behind.

import { EventEmitter, once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { closeLater } from './close-all.js'
import { validate, type ConnectionRecord, type CutBy, type Passage, type Plan } from './cut-plan.js'
import { listenOnLoopback } from './listen.js'
import { ProxyConnection, type ConnectionHost } from './proxy-connection.js'

export type {
  ConnectionRecord,
  Cut,
  CutBy,
  Direction,
  Passage,
  Plan,
  ProxiedRequest
} from './cut-plan.js'

export interface CutProxyOptions {
  /** Port on 127.0.0.1. */
  target: number
  /**
   * By ordinal of the request (an array entry left out: no cut), or a function. Default: no cuts.
   */
  plan?: Plan
  /**
   * How much of a request is held back until the plan has been asked: all of it (default), so that
   * the plan can look at the message, or its head alone. What a client leaves unfinished is planned
   * and forwarded when it hangs up.
   */
  hold?: 'body' | 'head'
}

interface CutProxyEvents {
  connection: [ConnectionRecord]
  request: [Passage]
  /** The head of a final response has come from the server; nothing of it has been passed on. */
  head: [Passage]
  cut: [Passage]
}

export class CutProxy extends EventEmitter<CutProxyEvents> implements ConnectionHost {
  /** May be replaced at any time; asked once per request. */
  plan: Plan
  readonly hold: 'body' | 'head'
  readonly target: number
  readonly connections: ConnectionRecord[] = []
  /** All requests that have passed the plan, in that order. */
  readonly passages: Passage[] = []
  /** Those that were cut, in order of their cuts. */
  readonly cuts: Passage[] = []
  readonly close: () => Promise<void>
  port = 0

  readonly #server = createServer({ allowHalfOpen: true, noDelay: true }, client =>
    this.#accept(client)
  )
  readonly #open = new Set<ProxyConnection>()
  readonly #closed = new AbortController()
  #failure: { error: unknown } | undefined

  constructor({ target, plan = [], hold = 'body' }: CutProxyOptions) {
    super()
    this.target = target
    this.plan = plan
    this.hold = hold
    this.close = closeLater(() => this.#close())
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  async listen(): Promise<this> {
    this.port = await listenOnLoopback(this.#server)
    return this
  }

  /** The nth cut (from 1), past or to come. Rejects when the proxy closes first. */
  nthCut(n: number): Promise<Passage> {
    return this.#nth(this.cuts, n, 'cut')
  }

  /** The nth request (from 1) that reached the plan, past or to come. */
  nthRequest(n: number): Promise<Passage> {
    return this.#nth(this.passages, n, 'request')
  }

  /** The nth connection (from 1), past or to come. */
  nthConnection(n: number): Promise<ConnectionRecord> {
    return this.#nth(this.connections, n, 'connection')
  }

  /** Cuts every open connection now, wherever it stands, or that of one request. */
  cutNow(by: CutBy, only?: Passage): void {
    for (const connection of [...this.#open])
      if (only === undefined || connection.carries(only)) connection.cutNow(by)
  }

  /** @internal */
  admit(passage: Passage): void {
    passage.index = this.passages.length
    const { plan } = this
    passage.cut = typeof plan === 'function' ? plan(passage) : plan[passage.index]
    if (passage.cut) validate(passage.cut)
    this.passages.push(passage)
    this.emit('request', passage)
  }

  /** @internal */
  answered(passage: Passage): void {
    this.emit('head', passage)
  }

  /** @internal A plan that throws fails the spec when it closes the proxy. */
  fail(error: unknown): void {
    this.#failure ??= { error }
    this.#closed.abort()
  }

  /** @internal */
  report(passage: Passage): void {
    this.cuts.push(passage)
    this.emit('cut', passage)
  }

  async #nth<T>(seen: T[], n: number, event: keyof CutProxyEvents): Promise<T> {
    const { signal } = this.#closed
    while (seen.length < n) {
      await once(this, event, { signal }).catch(() => {
        throw (
          this.#failure?.error ??
          new Error(`the proxy closed after ${seen.length} of ${n} ${event}s`)
        )
      })
    }
    return seen[n - 1]!
  }

  #accept(client: Socket): void {
    const record: ConnectionRecord = {
      index: this.connections.length,
      bytes: { request: 0, response: 0 },
      passages: [],
      ended: 'open'
    }
    this.connections.push(record)
    const connection = new ProxyConnection(this, client, record, () =>
      this.#open.delete(connection)
    )
    this.#open.add(connection)
    this.emit('connection', record)
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()))
    for (const connection of [...this.#open]) connection.destroy()
    this.#closed.abort()
    await closed
    if (this.#failure) throw this.#failure.error
  }
}

/** Starts a proxy in front of `target`. Closed by `closeAll`. */
export function createCutProxy(options: CutProxyOptions): Promise<CutProxy> {
  return new CutProxy(options).listen()
}
