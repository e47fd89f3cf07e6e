// The events of a response and its request: who hears what, and when, once a stream is in the place
// of their socket; those behind us in the context of their call.
import { EventEmitter } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ResponseCaptureHost } from './capture-types.js'
import { runOutsideContext } from './handler-context.js'
import { dropsBody } from './node-internals.js'
import {
  HELD_REQUEST_EVENTS,
  listenersOfRequest,
  type PatchedResponse,
  REQUEST_EVENTS
} from './patched-response.js'

export interface DeferredEventsHost {
  readonly isDecided: boolean
  readonly isCaptured: boolean
  /** The endpoint has ended it, and everything has been taken. */
  readonly isFinished: boolean
  /** The response has been ended on the wire, too. */
  readonly isEnding: boolean
  gone(): void
}

type AnyFunction = (...args: never[]) => unknown

/** As others patch `emit`, `on` and `off` where we and they meet: what traces requests does. */
const NATIVE = { ...EventEmitter.prototype }
const NONE: readonly string[] = []
const HELD_RESPONSE_EVENTS = ['close', 'finish', 'drain']

export class DeferredEvents {
  readonly #req: IncomingMessage
  readonly #patched: PatchedResponse
  readonly #host: DeferredEventsHost
  readonly #endpoint: ResponseCaptureHost
  #isCloseShown = false
  /** Socket events are for those in front of us only. */
  #isHolding = false
  #isBodyDropped = false
  /** The request has told of its close, whether or not that was held. */
  #isClosed = false
  /** Listeners from in front of us, which hear the socket. So few that a set would be larger. */
  #inFront: readonly unknown[]
  #heldRequestEvents: readonly string[] = NONE
  #isRequestPatched = false
  /** The stream is over, and the response on the wire: those behind us hear of its end with it. */
  #isEnding = false
  /** Those in front of us have heard that the response has left. */
  #hasFinished = false
  /** Emits to those in front of us: Node's `emit` of the response, or what they have made of it. */
  #emitter: AnyFunction = NATIVE.emit

  /** @param front who was there before those behind us. */
  constructor(
    req: IncomingMessage,
    patched: PatchedResponse,
    host: DeferredEventsHost,
    endpoint: ResponseCaptureHost,
    front: readonly unknown[]
  ) {
    this.#req = req
    this.#patched = patched
    this.#host = host
    this.#endpoint = endpoint
    this.#inFront = front
    // Who reads the body is told in the context in which they ask only where all of it has come.
    if (!req.complete || this.#hasInFront(listenersOfRequest(req))) this.#patchRequest()
  }

  get isHolding(): boolean {
    return this.#isHolding
  }

  get isCloseShown(): boolean {
    return this.#isCloseShown
  }

  /** Adds a listener of ours to the response: it hears the socket. */
  listen(event: string, listener: () => void): void {
    this.#inFront = [...this.#inFront, listener]
    this.#patched.res.on(event, listener)
  }

  unlisten(event: string, listener: () => void): void {
    this.#patched.res.off(event, listener)
    this.#inFront = this.#inFront.filter(other => other !== listener)
  }

  /** Those in front of us hear the socket; those behind us hear nothing until `showClose`. */
  hold(): void {
    this.#emitter = this.#patched.emitBy((event, ...args) => this.#emit(event, args))
    this.#isHolding = true
    this.#patchRequest()
  }

  /** Where Node has dropped the body with our end of the response, the request is destroyed. */
  get isBodyRead(): boolean {
    const req = this.#req
    return req.readableEnded && !(this.#isBodyDropped && this.#isClosed)
  }

  /** From here on everybody hears the socket again. */
  passOn(): void {
    this.#isHolding = false
  }

  /** Before we end the connection ourselves. */
  leavingSocket(): void {
    this.#isBodyDropped ||= dropsBody(this.#req)
  }

  /** Those behind us may hear the close, and what else they have missed. `show` runs before. */
  showClose(show: () => void): void {
    this.#isCloseShown = true
    process.nextTick(() => {
      // The wire ends with the stream: everybody hears that from Node.
      if (this.#host.isEnding && !this.#hasFinished) this.#isEnding = true
      else {
        show()
        if (this.#host.isFinished) this.emitBehind('finish')
        this.emitBehind('close')
      }
      const held = this.#heldRequestEvents
      this.#heldRequestEvents = NONE
      for (const event of held) if (event !== 'error') this.#call(this.#req, event, [], false)
    })
  }

  emitBehind(event: string): void {
    this.#call(this.#patched.res, event, [], false)
  }

  #emit(event: string, args: unknown[]): boolean {
    const { res } = this.#patched
    const { isCaptured, isDecided } = this.#host
    const isHeld = event !== 'drain' || isCaptured || !isDecided
    // Node calls the response destroyed before its close; else somebody emits that by hand.
    const isOfWire = event !== 'close' || res.destroyed
    if (!this.#isHolding || !isHeld || !isOfWire || !HELD_RESPONSE_EVENTS.includes(event))
      return Reflect.apply(this.#emitter, res, [event, ...args]) as boolean
    if (event === 'finish') this.#hasFinished = true
    else if (event === 'close' && !this.#isEnding) this.#host.gone()
    const hasCalled = this.#emitInFront(res, this.#emitter, event, args)
    if (!this.#isEnding) return hasCalled
    return this.#call(res, event, args, false) || hasCalled
  }

  #patchRequest(): void {
    if (this.#isRequestPatched) return
    this.#isRequestPatched = true
    this.#isClosed = this.#req.closed
    DeferredEvents.#patch(this)
  }

  static #patch(held: DeferredEvents): void {
    const req = held.#req
    const emitOnRequest = req.emit

    const emit = (event: string, ...args: unknown[]): boolean => {
      if (event === 'close') held.#isClosed = true
      // While the body is read: who reads it waits for the close that follows its end.
      const isRead = event === 'close' && req.readableEnded && !held.#isBodyDropped
      if (
        !held.#isHolding ||
        held.#isCloseShown ||
        isRead ||
        !HELD_REQUEST_EVENTS.includes(event)
      ) {
        return held.#emitOnRequest(emitOnRequest, event, args)
      }
      held.#heldRequestEvents = [...held.#heldRequestEvents, event]
      return held.#emitInFront(req, emitOnRequest, event, args)
    }
    req.emit = emit as IncomingMessage['emit']
  }

  #hasInFront(listeners: readonly unknown[]): boolean {
    return listeners.some(listener => this.#inFront.includes(listener))
  }

  #emitOnRequest(emit: IncomingMessage['emit'], event: string, args: unknown[]): boolean {
    const req = this.#req
    const emitAll = (): boolean => emit.call(req, event, ...(args as []))
    if (!REQUEST_EVENTS.includes(event)) return emitAll()
    const isInside = this.#endpoint.isInsideHandler()
    if (!this.#hasInFront(req.rawListeners(event)))
      return isInside ? emitAll() : this.#endpoint.runInside(emitAll)
    const hasCalled = this.#call(req, event, args, true)
    return this.#call(req, event, args, false) || hasCalled
  }

  /** Emits to those in front of us: to listeners, and to what stands there in place of `emit`. */
  #emitInFront(
    emitter: IncomingMessage | ServerResponse,
    emit: AnyFunction,
    event: string,
    args: unknown[]
  ): boolean {
    if (emit === NATIVE.emit) return this.#call(emitter, event, args, true)
    const behind = emitter.rawListeners(event).filter(other => !this.#inFront.includes(other))
    // Without a listener an error would be thrown.
    if (event === 'error' && emitter.listenerCount(event) === behind.length) return false
    for (const listener of behind) NATIVE.off.call(emitter, event, listener as () => void)
    try {
      return runOutsideContext(() => Reflect.apply(emit, emitter, [event, ...args]) as boolean)
    } finally {
      for (const listener of behind) NATIVE.on.call(emitter, event, listener as () => void)
    }
  }

  /** @param ofFront which listeners are called: in front of us, or behind. */
  #call(
    emitter: IncomingMessage | ServerResponse,
    event: string,
    args: unknown[],
    ofFront: boolean
  ): boolean {
    let hasCalled = false
    for (const listener of emitter.rawListeners(event) as AnyFunction[]) {
      const isInFront = this.#inFront.includes(listener)
      if (isInFront !== ofFront) continue
      hasCalled = true
      const call = (): unknown => Reflect.apply(listener, emitter, args)
      if (isInFront) runOutsideContext(call)
      else this.#endpoint.runInside(call)
    }
    return hasCalled
  }
}
