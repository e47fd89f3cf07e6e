// A GET for a second listen channel: whether the endpoint refuses one (409) is remembered.
import { attach, startOf } from '../endpoint/attach.js'
import type { Stream } from '../streams/stream.js'
import type { Capture } from '../http/capture-types.js'
import type { ListenRule } from '../endpoint/listen-rules.js'
import type { RequestContext, SecondChannel } from '../endpoint/request-context.js'
import type { ResponseCapture } from '../http/response-capture.js'
import { setSessionHeader, setStreamHeaders } from '../endpoint/stream-headers.js'
import { follow } from './resume.js'
import type { Answer, Context, Route } from './route.js'

export const listen: Route = context => {
  const { method, session, lastEventId } = context
  if (method !== 'GET' || session === undefined || lastEventId !== undefined) return undefined
  if (!context.acceptsEvents || context.isForeign) return undefined
  return channelFor(context, session)
}

function channelFor(context: Context, session: string): Answer | undefined {
  const { instance, owner, path } = context
  const channels = instance.table.index.findListening(session, owner)
  const [first] = channels
  if (first === undefined) return undefined
  const rule = channels.length > 1 ? 'several' : instance.listenRules.of({ owner, path })
  const mayAsk = !instance.isClosing && context.profile.taken
  if (rule === 'one' || (rule === undefined && !mayAsk))
    return () => follow(context, first, startOf(first))
  const parked = channels.filter(({ hasReader }) => !hasReader)
  // A channel without a client that has events left: the first client that comes gets them.
  const unread = parked.find(({ log }) => log.written < log.last)
  if (unread !== undefined) return () => follow(context, unread, startOf(unread))
  const isOnly = channels.length === 1
  const channel = parked[0] ?? (isOnly ? first : undefined)
  context.second = channel && new SecondListener(context, channel, isOnly)
  return undefined
}

/** On its way to the endpoint, whose answer decides: another channel, or the one there is. */
class SecondListener implements SecondChannel {
  readonly #context: RequestContext
  readonly #channel: Stream
  /** The session has no other one: an endpoint that refuses another allows only one. */
  readonly #isOnly: boolean

  constructor(context: RequestContext, channel: Stream, isOnly: boolean) {
    this.#context = context
    this.#channel = channel
    this.#isOnly = isOnly
  }

  allowed(): void {
    if (!this.#channel.isEnded) this.#learn('several')
  }

  refused(response: ResponseCapture): Capture | undefined {
    if (this.#channel.isEnded) return undefined
    if (this.#isOnly) this.#learn('one')
    if (response.wire.isGone || this.#context.res.destroyed) return undefined
    return new RefusalCapture(response, () => this.#follow(response))
  }

  #learn(rule: ListenRule): void {
    const { instance, owner, path } = this.#context
    instance.listenRules.learn({ owner, path }, rule)
  }

  #follow(response: ResponseCapture): void {
    const context = this.#context
    const channel = this.#channel
    const { wire } = response
    if (wire.isOver) return
    wire.replaceHead('text/event-stream', () => {
      setSessionHeader(context, channel.sessionId, wire)
      setStreamHeaders(context, channel.id, wire)
    })
    const profile = context.profileOn(channel)
    const connection = attach(context.instance, channel, startOf(channel), wire, profile)
    connection.flush()
    if (!connection.hasWritten && !connection.isClosed) wire.flushHead()
  }
}

/** Takes a refusal that the client does not get to see. */
class RefusalCapture implements Capture {
  readonly isFull = false
  readonly #response: ResponseCapture
  readonly #begin: () => void

  constructor(response: ResponseCapture, begin: () => void) {
    this.#response = response
    this.#begin = begin
  }

  begin(): void {
    this.#begin()
  }

  write(): boolean {
    return true
  }

  end(): void {
    this.#response.release()
  }

  abort(): void {
    this.#response.release()
  }

  connectionClosed(): void {
    this.#response.release()
  }

  lateHead(): void {
    // Its head has come already.
  }
}
