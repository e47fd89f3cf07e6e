// The one place where a response is patched: what happens to it from the endpoint to the wire.
import type { IncomingMessage, OutgoingHttpHeader, ServerResponse } from 'node:http'
import { swallow } from './chunk.js'
import {
  ASKS_HEADERS_SENT,
  hasMadeHead,
  METHOD_NAMES,
  methodsOf,
  NATIVE_WRITE,
  type ResponseMethods,
  writeChunk
} from './node-internals.js'
import { foldHeaders, headerIn, headersIn, statusLineIn, stringOf } from './response-headers.js'

/** Takes what is done to a response. Arguments are those of Node's methods. */
export interface Layer {
  writeHead(args: readonly unknown[]): ServerResponse
  write(args: readonly unknown[]): boolean
  end(args: readonly unknown[]): ServerResponse
  flushHeaders(): void
  setHeader(name: string, value: OutgoingHttpHeader): ServerResponse
  getHeader(name: string): OutgoingHttpHeader | undefined
  destroy(error?: Error): ServerResponse
  /** Node asks for a head that has not been written. */
  implicitHeader(): void
  /** Whether there is a head, as far as those behind this layer are concerned. */
  readonly hasHead: boolean
  /** It has taken the response, which goes to a stream, and not to the wire. */
  readonly isCaptured?: boolean
}

/** Reads along what passes to the wire. */
export interface Watch {
  head(args: readonly unknown[]): void
  write(args: readonly unknown[]): void
  end(args: readonly unknown[]): void
  destroyed(): void
}

/** Returns what is to stand in front of the body of a head that the endpoint has written. */
type HeadChange = (head: HeadInMaking) => Uint8Array | undefined

/** Decides, when the endpoint gives a head, whether the client may have the answer. */
interface Holding {
  /** Takes what the endpoint writes, until `letGo`; `undefined`: it passes. */
  layerFor(patched: PatchedResponse, status: number): Layer | undefined
}

/** The state of a response as the endpoint is to see it: that of its stream. */
export interface ResponseView {
  readonly isEnded: boolean
  /** The endpoint has ended its response, and everything has been taken. */
  readonly isFinished: boolean
  readonly needsDrain: boolean
  /** The stream is over. */
  readonly isClosed: boolean
}

/**
 * Marks a response as ours, also for another copy of this module: an application may load it as ESM
 * and as CJS. `undefined`: the endpoint sees the state of its socket.
 */
export const VIEW = Symbol.for('express-mcp-streams.view')

export interface Viewed {
  [VIEW]?: ResponseView | undefined
}

export const HELD_REQUEST_EVENTS = ['close', 'aborted', 'error']
export const REQUEST_EVENTS = ['data', 'end', 'readable', ...HELD_REQUEST_EVENTS]

const NO_LISTENERS: readonly unknown[] = []

/** Before those behind us are called. */
export function listenersOfRequest(req: IncomingMessage): readonly unknown[] {
  let listeners = NO_LISTENERS
  for (const event of REQUEST_EVENTS)
    if (req.listenerCount(event) > 0) listeners = listeners.concat(req.rawListeners(event))
  return listeners
}

type AnyMethod = (...args: unknown[]) => unknown

const PATCHED = Symbol('express-mcp-streams.patched')

interface Patched {
  [PATCHED]?: PatchedResponse
}

type PatchedServerResponse = ServerResponse & { readonly [PATCHED]: PatchedResponse }

export function patchedResponse(res: ServerResponse): PatchedResponse {
  return (res as Patched)[PATCHED] ?? new PatchedResponse(res)
}

/** Those that matter for every response; the others are patched where they matter. */
type FirstMethod = 'writeHead' | 'write' | 'end' | 'getHeader' | 'destroy' | 'flushHeaders'

type Patches = {
  readonly [Name in keyof ResponseMethods]: ResponseMethods[Name] extends (
    this: ServerResponse,
    ...args: infer Args
  ) => infer Result
    ? (this: PatchedServerResponse, ...args: Args) => Result
    : never
}

const NO_CHANGES: readonly HeadChange[] = []
const NO_WATCHES: readonly Watch[] = []

/**
 * From the endpoint to the wire: its head is changed, its messages are rewritten, the response is
 * captured or its body is watched, and whatever the head is in the end, it carries the cookie. As a
 * layer, it is the wire.
 */
export class PatchedResponse implements Layer {
  readonly res: ServerResponse
  /** All methods are patched, and not only the first. */
  #isWhole = false
  /** Node's methods, or what those in front of us have patched over them. */
  readonly methods: ResponseMethods
  /** The memory of what is written may be reused once Node is done with it. */
  readonly isReusable: boolean
  /** What the endpoint calls. */
  top: Layer = this
  behindRewriter: Layer = this
  #rewriter: Layer | undefined
  #capture: Layer | undefined
  /** Made once, to the endpoint's own head. */
  #changes = NO_CHANGES
  #lastChanges = NO_CHANGES
  #holding: Holding | undefined
  #held: Layer | undefined
  /** Nobody has been asked whether its head is held. */
  #isHoldable = true
  /** Those for the head that is given once it is let go. */
  #heldChanges = NO_CHANGES
  #watches = NO_WATCHES
  #endListeners: (() => void)[] | undefined
  #showsHead = false
  /** The capture has headers that are not those of the wire, or a head that is sent later. */
  hasHeaders = false
  /** The response is being written to the wire: `headersSent` is asked by the runtime. */
  isOnWire = false

  constructor(res: ServerResponse) {
    this.res = res
    this.isReusable = res.write === NATIVE_WRITE
    const methods = methodsOf(res)
    this.methods = ASKS_HEADERS_SENT ? onWire(methods) : methods
    ;(res as Patched)[PATCHED] = this
    Object.assign(res, PatchedResponse.#first)
  }

  /** Patches the rest: the head is held, or changed, or events of the socket are. */
  patchAll(): void {
    if (this.#isWhole) return
    this.#isWhole = true
    Object.assign(this.res, PatchedResponse.#rest)
  }

  /** The same functions for every response: a call that waits should not cost ten closures. */
  static readonly #first: Pick<Patches, FirstMethod> = {
    writeHead(this: PatchedServerResponse, ...args) {
      const patched = this[PATCHED]
      return patched.#changes === NO_CHANGES
        ? patched.top.writeHead(args)
        : patched.#headGiven(args)
    },
    write(this: PatchedServerResponse, ...args) {
      const patched = this[PATCHED]
      if (patched.#changes !== NO_CHANGES) patched.#implyHead()
      return patched.top.write(args)
    },
    end(this: PatchedServerResponse, ...args) {
      const patched = this[PATCHED]
      if (patched.#changes !== NO_CHANGES) patched.#implyHead()
      if (patched.#endListeners !== undefined && patched.#held === undefined)
        patched.#ended(patched.#endListeners)
      return patched.top.end(args)
    },
    getHeader(this: PatchedServerResponse, name) {
      const patched = this[PATCHED]
      return patched.hasHeaders || (name.length === CACHE_CONTROL.length && isCacheControl(name))
        ? patched.top.getHeader(name)
        : patched.methods.getHeader.call(this, name)
    },
    destroy(this: PatchedServerResponse, error) {
      const patched = this[PATCHED]
      if (patched.#endListeners !== undefined) patched.#ended(patched.#endListeners)
      return patched.top.destroy(error)
    },
    flushHeaders(this: PatchedServerResponse) {
      const patched = this[PATCHED]
      if (patched.#changes !== NO_CHANGES) patched.#implyHead()
      patched.top.flushHeaders()
    }
  }

  static readonly #rest: Omit<Patches, FirstMethod> = {
    setHeader(this: PatchedServerResponse, name, value) {
      const patched = this[PATCHED]
      return patched.hasHeaders
        ? patched.top.setHeader(name, value)
        : patched.methods.setHeader.call(this, name, value)
    },
    _implicitHeader(this: PatchedServerResponse) {
      this[PATCHED].top.implicitHeader()
    }
  }

  static readonly #all: Patches = { ...PatchedResponse.#first, ...PatchedResponse.#rest }

  // What happens to it

  /** Those that are added later are asked first. */
  changeHead(change: HeadChange): void {
    this.patchAll()
    this.#changes = [change, ...this.#changes]
  }

  /** Of several, the last one is asked. */
  holdBy(holding: Holding): void {
    this.#holding = holding
    this.#isHoldable = false
    // So that it is asked when the head is given.
    if (this.#changes === NO_CHANGES) this.#changes = []
  }

  /** The capture is given this head. `undefined`: it is not held, or was asked about before. */
  hold(holding: Holding, status: number): Layer | undefined {
    if (!this.#isHoldable) return undefined
    this.#isHoldable = false
    this.#held = holding.layerFor(this, status)
    this.#heldChanges = NO_CHANGES
    this.capture(this.#capture)
    return this.#held
  }

  /** What happens to an answer happens to the one that is given from now on. */
  letGo(): void {
    this.#held = undefined
    this.#changes = this.#heldChanges
    this.capture(this.#capture)
  }

  /** Does what the endpoint would do by this method, whatever those behind us have patched. */
  act(method: 'writeHead' | 'write' | 'end' | 'destroy', args: readonly unknown[]): unknown {
    return (PatchedResponse.#first[method] as unknown as AnyMethod).apply(this.res, [...args])
  }

  /** At the wire, whatever the head is by then, and whoever has written it. */
  changeLastHead(change: HeadChange): void {
    this.#lastChanges = [...this.#lastChanges, change]
  }

  /** The one that rewrites it; `make`: where there is none yet. */
  rewriter<T extends Layer>(make: () => T): T {
    this.patchAll()
    const rewriter = (this.#rewriter ??= make())
    this.capture(this.#capture)
    return rewriter as T
  }

  capture(layer: Layer | undefined): void {
    this.#capture = layer
    this.behindRewriter = layer ?? this
    this.top = this.#held ?? this.#rewriter ?? this.behindRewriter
  }

  /** Reads the body along, unless the response is taken. */
  watch(watch: Watch): void {
    this.#watches = [...this.#watches, watch]
  }

  /** When the endpoint ends or destroys its response, in the next tick. */
  onceEnded(listener: () => void): void {
    this.patchAll()
    this.#endListeners ??= []
    this.#endListeners.push(listener)
  }

  /** Nothing is left to do for its capture: the response may get its methods back. */
  uncapture(): void {
    this.#capture = undefined
    this.behindRewriter = this
    this.top = this.#held ?? this.#rewriter ?? this
    const isNeeded =
      this.top !== this ||
      this.#lastChanges !== NO_CHANGES ||
      this.#endListeners !== undefined ||
      this.#changes !== NO_CHANGES ||
      this.#watches !== NO_WATCHES
    if (isNeeded) return
    // But for those that have been patched on top.
    const methods = this.res as unknown as Record<keyof ResponseMethods, unknown>
    for (const name of METHOD_NAMES)
      if (methods[name] === PatchedResponse.#all[name]) methods[name] = this.methods[name]
  }

  /** From now on `headersSent` tells what the layers say. */
  showHead(): void {
    if (this.#showsHead) return
    this.#showsHead = true
    Object.defineProperty(this.res, 'headersSent', HEADERS_SENT)
  }

  /** Returns what emitted events before: Node, or those who have patched it. */
  emitBy(emit: (event: string, ...args: unknown[]) => boolean): AnyMethod {
    const { res } = this
    const emitter = res.emit as AnyMethod
    res.emit = emit as ServerResponse['emit']
    return emitter
  }

  /** Replaces a method of Node's. One that other code has patched stays as it is. */
  replace(name: string, method: AnyMethod): void {
    const { res } = this
    if (Object.hasOwn(res, name) || !(name in res)) return
    ;(res as unknown as Record<string, AnyMethod>)[name] = method
  }

  // What the endpoint does

  #headGiven(args: readonly unknown[]): ServerResponse {
    const head = new HeadInMaking(this.res, this.top, args)
    const behind = this.#change(head)
    const res = this.top.writeHead(head.args)
    for (const bytes of behind) this.behindRewriter.write([bytes])
    return res
  }

  #implyHead(): void {
    if (this.top.hasHead) return
    const { res } = this
    const head = new HeadInMaking(res, this.top)
    this.#change(head)
    if (head.status !== res.statusCode) res.statusCode = head.status
  }

  #change(head: HeadInMaking): Uint8Array[] {
    const changes = this.#changes
    this.#changes = NO_CHANGES
    this.#held = this.#holding?.layerFor(this, head.status)
    this.#holding = undefined
    if (this.#held !== undefined) {
      this.#heldChanges = changes
      this.patchAll()
      this.capture(this.#capture)
      return []
    }
    return changes.flatMap(change => change(head) ?? [])
  }

  #ended(listeners: readonly (() => void)[]): void {
    this.#endListeners = undefined
    process.nextTick(() => listeners.forEach(listener => listener()))
  }

  // Layer: the wire

  writeHead(args: readonly unknown[]): ServerResponse {
    const { res, methods } = this
    if (this.#watches !== NO_WATCHES) this.#tell(watch => watch.head(args))
    const changes = this.#lastChanges
    if (changes === NO_CHANGES) return methods.writeHead.apply(res, args as unknown[])
    this.#lastChanges = NO_CHANGES
    const head = new HeadInMaking(res, this, args)
    for (const change of changes) change(head)
    return methods.writeHead.apply(res, head.args as unknown[])
  }

  write(args: readonly unknown[]): boolean {
    if (this.#watches !== NO_WATCHES) this.#tell(watch => watch.write(args))
    if (this.isReusable) return writeChunk(this.res, args)
    return this.methods.write.apply(this.res, args as unknown[])
  }

  end(args: readonly unknown[]): ServerResponse {
    if (this.#watches !== NO_WATCHES) this.#tell(watch => watch.end(args))
    return this.methods.end.apply(this.res, args as unknown[])
  }

  /** Its client has gone: what is written goes nowhere, and is watched all the same. */
  swallow(args: readonly unknown[], isEnd: boolean): boolean {
    for (const watch of this.#watches) {
      if (isEnd) watch.end(args)
      else watch.write(args)
    }
    return swallow(args)
  }

  #tell(tell: (watch: Watch) => void): void {
    if (this.#capture?.isCaptured !== true) this.#watches.forEach(tell)
  }

  flushHeaders(): void {
    this.methods.flushHeaders.call(this.res)
  }

  setHeader(name: string, value: OutgoingHttpHeader): ServerResponse {
    return this.methods.setHeader.call(this.res, name, value)
  }

  getHeader(name: string): OutgoingHttpHeader | undefined {
    return this.methods.getHeader.call(this.res, name)
  }

  destroy(error?: Error): ServerResponse {
    if (this.#watches !== NO_WATCHES) this.#tell(watch => watch.destroyed())
    return this.methods.destroy.call(this.res, error)
  }

  implicitHeader(): void {
    this.methods._implicitHeader.call(this.res)
  }

  get hasHead(): boolean {
    return hasMadeHead(this.res)
  }
}

/** A head before it passes. */
export class HeadInMaking {
  status: number
  readonly #res: ServerResponse
  readonly #layer: Layer
  #args: readonly unknown[] | undefined

  /** @param args of `writeHead`; `undefined`: it has not been called. */
  constructor(res: ServerResponse, layer: Layer, args?: readonly unknown[]) {
    this.#res = res
    this.#layer = layer
    this.#args = args
    this.status = args === undefined ? res.statusCode : Number(args[0])
  }

  /** The endpoint has written it; else Node is about to make it of what has been set. */
  get isExplicit(): boolean {
    return this.#args !== undefined
  }

  get args(): readonly unknown[] {
    const args = this.#args ?? []
    return this.status === Number(args[0]) ? args : [this.status, ...args.slice(1)]
  }

  header(name: string): string | undefined {
    const given = this.#args && headersIn(this.#args)
    return headerIn(given, name) ?? stringOf(this.#layer.getHeader(name))
  }

  setHeader(name: string, value: OutgoingHttpHeader): void {
    this.#fold()
    this.#layer.setHeader(name, value)
  }

  removeHeader(name: string): void {
    this.#fold()
    this.#res.removeHeader(name)
  }

  /** Another value beside those that there are. */
  appendHeader(name: string, value: string): void {
    this.#fold()
    const present = this.#layer.getHeader(name)
    const values = present === undefined ? [] : [present].flat().map(String)
    this.#layer.setHeader(name, [...values, value])
  }

  /** Onto the response, where single headers can be changed. */
  #fold(): void {
    const args = this.#args
    if (args === undefined || args.length < 2) return
    foldHeaders(headersIn(args), this.#layer)
    this.#args = statusLineIn(args)
  }
}

const CACHE_CONTROL = 'cache-control'

/** The one header of which a capture shows more than there is. */
export function isCacheControl(name: string): boolean {
  return name.toLowerCase() === CACHE_CONTROL
}

/** One descriptor for all responses keeps their shapes alike. */
const HEADERS_SENT: PropertyDescriptor = {
  configurable: true,
  get(this: Patched) {
    const patched = this[PATCHED] as PatchedResponse
    return (patched.isOnWire ? patched : patched.top).hasHead
  }
}

/** The same methods, which find the runtime's own `headersSent`. */
function onWire(methods: ResponseMethods): ResponseMethods {
  const wrapped = METHOD_NAMES.map(name => {
    const method = methods[name] as AnyMethod
    function call(this: Patched, ...args: unknown[]): unknown {
      const patched = this[PATCHED] as PatchedResponse
      const { isOnWire } = patched
      patched.isOnWire = true
      try {
        return method.apply(this, args)
      } finally {
        patched.isOnWire = isOnWire
      }
    }
    return [name, call] as const
  })
  return Object.fromEntries<unknown>(wrapped) as unknown as ResponseMethods
}
