// A GET for a listen channel in a session that has one already, on its way to the endpoint: whether
// it opens another channel or follows the one there is, the endpoint's answer decides.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Stream } from '../streams/stream.js'
import { type InstanceParts, profileOf, setStreamHeaders } from './instance-parts.js'
import type { ListenPlace } from './listen-rules.js'
import { attach, startOf } from './attach.js'
import type { ResponseCapture } from './response-capture.js'
import type { Capture } from './capture-types.js'

export class SecondListener {
  readonly #parts: InstanceParts
  readonly #place: ListenPlace
  /** What it follows if the endpoint refuses it. */
  readonly #channel: Stream
  /** The session has no other one: an endpoint that refuses another allows only one. */
  readonly #isOnly: boolean

  constructor(parts: InstanceParts, place: ListenPlace, channel: Stream, isOnly: boolean) {
    this.#parts = parts
    this.#place = place
    this.#channel = channel
    this.#isOnly = isOnly
  }

  /** The endpoint has opened a channel beside the one there is. */
  allowed(): void {
    if (!this.#channel.isEnded) this.#parts.listenRules.learn(this.#place, 'several')
  }

  /** The endpoint has answered 409. `undefined`: that is for the client to see. */
  refused(req: IncomingMessage, res: ServerResponse, tap: ResponseCapture): Capture | undefined {
    if (this.#channel.isEnded) return undefined
    if (this.#isOnly) this.#parts.listenRules.learn(this.#place, 'one')
    if (tap.isGone || res.destroyed) return undefined
    return new RefusalIntake(tap, () => this.#follow(req, res, tap))
  }

  #follow(req: IncomingMessage, res: ServerResponse, tap: ResponseCapture): void {
    const parts = this.#parts
    const channel = this.#channel
    if (tap.isOver) return
    const setHeader = (name: string, value: string): void => tap.setHeader(name, value)
    tap.replaceHead('text/event-stream', () => {
      if (channel.sessionId !== undefined) setHeader('Mcp-Session-Id', channel.sessionId)
      setStreamHeaders(parts, req, res, channel.id, setHeader)
    })
    const profile = profileOf(parts, req, channel.owner, channel.profile)
    const connection = attach(parts, channel, startOf(channel), tap, profile)
    connection.flush()
    if (!connection.hasWritten && !connection.isClosed) tap.flushHead()
  }
}

/** Takes a refusal that its client does not get to see. */
class RefusalIntake implements Capture {
  readonly isFull = false
  readonly #tap: ResponseCapture
  readonly #begin: () => void

  constructor(tap: ResponseCapture, begin: () => void) {
    this.#tap = tap
    this.#begin = begin
  }

  begin(): void {
    this.#begin()
  }

  write(): boolean {
    return true
  }

  end(): void {
    this.#tap.release()
  }

  abort(): void {
    this.#tap.release()
  }

  parted(): void {
    this.#tap.release()
  }

  lateHead(): void {
    // Its head has come already.
  }
}
