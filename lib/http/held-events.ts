// The events of a response and of its request, once a stream has taken the place of their socket: who hears what, and when.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { maskRequest } from './response-view.js'

/** The response whose events are held. */
export interface HeldEventsHost {
  /** Whether the response has been taken, or `undefined` before its head. */
  readonly isTaken: boolean | undefined
  /** The endpoint has ended it, and everything has been taken. */
  readonly isFinished: boolean
  /** The socket is gone. */
  gone(): void
}

type AnyFunction = (...args: never[]) => unknown
type Emit = (this: ServerResponse, event: string, ...args: unknown[]) => boolean

const HELD_RESPONSE_EVENTS = ['close', 'finish', 'drain']
const HELD_REQUEST_EVENTS = ['close', 'aborted', 'error']

export class HeldEvents {
  readonly #req: IncomingMessage
  readonly #res: ServerResponse
  readonly #host: HeldEventsHost
  readonly #emitOnResponse: Emit
  #isReleased = false
  /** Socket events are for those in front of us only. */
  #isHolding = false
  #isBodyDropped = false
  /** Listeners from in front of us: they hear the socket. So few that a set of them would be larger, and no faster. */
  #inFront: readonly unknown[]
  #heldRequestEvents: string[] = []

  constructor(req: IncomingMessage, res: ServerResponse, host: HeldEventsHost) {
    this.#req = req
    this.#res = res
    this.#host = host
    this.#emitOnResponse = res.emit as Emit
    const ofRequest = HELD_REQUEST_EVENTS.map(event => req.rawListeners(event))
    this.#inFront = res.rawListeners('close').concat(res.rawListeners('finish'), ...ofRequest)
  }

  get isHolding(): boolean {
    return this.#isHolding
  }

  get isReleased(): boolean {
    return this.#isReleased
  }

  /** A listener of ours: it hears the socket. */
  addInFront(listener: AnyFunction): void {
    this.#inFront = this.#inFront.concat(listener)
  }

  /** It is no listener any more. */
  removeInFront(listener: AnyFunction): void {
    // Copied, as `filter` leaves room for 17.
    this.#inFront = this.#inFront.filter(other => other !== listener).slice()
  }

  /** Those in front of us hear the socket; those behind us hear nothing until `release`. */
  hold(): void {
    this.#isHolding = true
    HeldEvents.#patch(this)
  }

  /** From here on everybody hears the socket again. */
  letGo(): void {
    this.#isHolding = false
  }

  /** Before we end the connection ourselves. */
  leavingSocket(): void {
    const req = this.#req
    // With the end of a response Node drops a body that nobody reads: the close that follows is no news of the client either.
    this.#isBodyDropped ||= !req.readableEnded && req.readableFlowing === null && req.listenerCount('readable') === 0
  }

  /** The stream is over: those behind us may hear the close now, and what else they have missed. */
  release(): void {
    this.#isReleased = true
    process.nextTick(() => {
      if (this.#host.isFinished) this.emitBehind('finish')
      this.emitBehind('close')
      const held = this.#heldRequestEvents
      this.#heldRequestEvents = []
      for (const event of held) if (event !== 'error') this.#call(this.#req, event, [], false)
    })
  }

  /** Calls the listeners behind us. */
  emitBehind(event: string): void {
    this.#call(this.#res, event, [], false)
  }

  static #patch(held: HeldEvents): void {
    const req = held.#req
    const emitOnRequest = req.emit

    held.#res.emit = function emit(this: ServerResponse, event: string, ...args: unknown[]): boolean {
      const isHeld = event !== 'drain' || held.#host.isTaken !== false
      if (!held.#isHolding || !isHeld || !HELD_RESPONSE_EVENTS.includes(event)) {
        return held.#emitOnResponse.call(this, event, ...args)
      }
      if (event === 'close') held.#host.gone()
      return held.#call(held.#res, event, args, true)
    } as ServerResponse['emit']

    req.emit = function emit(this: IncomingMessage, event: string, ...args: unknown[]): boolean {
      // While the body is read: who reads it waits for the close that follows its end.
      const isRead = event === 'close' && req.readableEnded && !held.#isBodyDropped
      if (!held.#isHolding || held.#isReleased || isRead || !HELD_REQUEST_EVENTS.includes(event)) {
        return emitOnRequest.call(this, event, ...(args as []))
      }
      held.#heldRequestEvents.push(event)
      // A body that has been read closes its request by itself: that is no news of the client.
      if (event !== 'close' || !req.complete) maskRequest(req)
      return held.#call(req, event, args, true)
    } as IncomingMessage['emit']
  }

  /** Calls the listeners on one side of us. */
  #call(emitter: IncomingMessage | ServerResponse, event: string, args: unknown[], areInFront: boolean): boolean {
    let hasCalled = false
    for (const listener of emitter.rawListeners(event) as AnyFunction[]) {
      if (this.#inFront.includes(listener) !== areInFront) continue
      hasCalled = true
      Reflect.apply(listener, emitter, args)
    }
    return hasCalled
  }
}
