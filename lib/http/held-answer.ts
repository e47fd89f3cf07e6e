// An answer of the endpoint that is held until it is known whether the client gets it.
import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import {
  callbackIn,
  GatheredBytes,
  hasChunk,
  headersSentError,
  swallow,
  withBytes
} from './chunk.js'
import type { Layer, PatchedResponse } from './patched-response.js'

/** Holds the endpoint's answer to one request, if its status is such (`PatchedResponse.holdBy`). */
export abstract class Holder {
  /** Asked once, when the endpoint gives its head. */
  protected abstract holds(status: number): boolean

  /** All of it has come. One of the methods of `held` is to be called, also if nobody wants it. */
  abstract decide(held: HeldAnswer): void

  layerFor(patched: PatchedResponse, status: number): Layer | undefined {
    return this.holds(status) ? new HeldAnswer(patched, this, status) : undefined
  }
}

/** Bytes of an answer that are held. What is larger passes. */
const LONGEST = 64 * 1024
const OF_BODY = ['Content-Length', 'Content-Type', 'Content-Encoding', 'ETag', 'Last-Modified']

export class HeldAnswer implements Layer {
  readonly status: number
  readonly #patched: PatchedResponse
  readonly #holder: Holder
  /** Of `writeHead`; `undefined`: it has not been called. */
  #head: readonly unknown[] | undefined
  readonly #body = new GatheredBytes()
  #hasEnded = false
  #isLetGo = false

  constructor(patched: PatchedResponse, holder: Holder, status: number) {
    this.#patched = patched
    this.#holder = holder
    this.status = status
    patched.showHead()
  }

  // For its holder

  /** Its client has left: whatever is decided, nobody hears of it. */
  get isUnwanted(): boolean {
    return this.#isLetGo || this.#patched.res.destroyed
  }

  /** What the endpoint has written. */
  get text(): string {
    return this.#body.whole().toString()
  }

  /** The client gets it, under another status if one is given. */
  pass(status = this.status): void {
    if (!this.#letGo()) return
    const { res } = this.#patched
    const body = this.#body.whole()
    const head = this.#head
    if (status !== this.status) {
      res.statusCode = status
      res.statusMessage = ''
    }
    if (head !== undefined)
      this.#patched.act(
        'writeHead',
        status === this.status ? head : [status, ...head.slice(1).filter(isObject)]
      )
    if (this.#hasEnded) this.#patched.act('end', body.length > 0 ? [body] : [])
    else if (body.length > 0) this.#patched.act('write', [body])
  }

  /** What gives the client another one; `undefined`: nobody is there to get it. */
  instead(): PatchedResponse | undefined {
    if (this.isUnwanted || !this.#letGo()) return undefined
    for (const name of OF_BODY) this.#patched.res.removeHeader(name)
    return this.#patched
  }

  #letGo(): boolean {
    if (this.#isLetGo) return false
    this.#isLetGo = true
    this.#patched.letGo()
    return true
  }

  // Layer

  readonly hasHead = true

  implicitHeader(): void {
    // It has one.
  }

  writeHead(args: readonly unknown[]): ServerResponse {
    if (this.#head !== undefined || this.#body.size > 0) throw headersSentError('write')
    this.#head = args
    return this.#patched.res
  }

  write(args: readonly unknown[]): boolean {
    this.#take(args)
    if (this.#body.size > LONGEST) this.pass()
    return swallow(args)
  }

  end(args: readonly unknown[]): ServerResponse {
    if (this.#hasEnded) return this.#patched.res
    if (hasChunk(args)) this.#take(args)
    this.#hasEnded = true
    const callback = callbackIn(args)
    if (callback !== undefined) process.nextTick(callback)
    this.#holder.decide(this)
    return this.#patched.res
  }

  #take([chunk, encoding]: readonly unknown[]): void {
    if (!this.#hasEnded) withBytes(chunk, encoding, bytes => this.#body.add(bytes))
  }

  flushHeaders(): void {
    // Its head is held as well.
  }

  setHeader(name: string, value: OutgoingHttpHeader): ServerResponse {
    return this.#patched.setHeader(name, value)
  }

  getHeader(name: string): OutgoingHttpHeader | undefined {
    return this.#patched.getHeader(name)
  }

  destroy(error?: Error): ServerResponse {
    this.#letGo()
    return this.#patched.act('destroy', [error]) as ServerResponse
  }
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}
