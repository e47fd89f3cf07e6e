// The event stream that a client gets in answer to its request, whoever fills it.
import { label } from '../protocol/event-id.js'
import { type ClientProfile, ONE_CONNECTION } from '../protocol/revisions.js'
import type { Connection } from '../readers/connection.js'
import type { Sink } from '../readers/sink.js'
import type { Stream } from '../streams/stream.js'
import type { Producer, StreamInit } from '../streams/stream-types.js'
import type { CallProgress } from './instance-parts.js'
import type { RequestContext } from './request-context.js'
import { setStreamHeaders, setUnbuffered } from './stream-headers.js'

export class ClientStream {
  /** The stream that the connection reads; `undefined`: there is none yet, or no room for it. */
  stream: Stream | undefined
  readonly #request: RequestContext
  /** Of its stream, if it becomes one. */
  readonly #id: string
  #progress: CallProgress | undefined
  readonly #startedAt: number

  /** @param startedAt when its request began to wait; needed where progress is reported. */
  constructor(request: RequestContext, id: string, startedAt: number) {
    this.#request = request
    this.#id = id
    this.#startedAt = startedAt
  }

  /** `undefined`: no room. @param isDurable its client may come back to it. */
  open(producer: Producer, isDurable: boolean, more: Partial<StreamInit> = {}): Stream | undefined {
    const { instance, owner, session, facts, profile, keyedCall } = this.#request
    const { sessionId = session } = more
    const init: StreamInit = {
      id: this.#id,
      kind: 'request',
      owner,
      requestIds: facts.requestIds,
      sessionId,
      profile: isDurable ? profile : ONE_CONNECTION,
      isEphemeral: !isDurable,
      callKey: isDurable ? keyedCall?.key : undefined,
      resumeInterval: isDurable ? this.#request.announcementIn(sessionId) : undefined,
      ...more
    }
    const stream = instance.table.open(init, producer)
    if (stream === undefined) {
      instance.count('refused', undefined, 'full')
      return undefined
    }
    this.#progress = instance.progress?.begin(stream, facts.progressTokens, this.#startedAt)
    return (this.stream = stream)
  }

  /** Tells operators what it answers. */
  log(stream: Stream): void {
    const { instance, facts } = this.#request
    instance.debug('stream %s answers %s', label(stream), () =>
      stream.kind === 'listen' ? 'a GET' : facts.inWords
    )
  }

  setHeaders(wire: Parameters<typeof setUnbuffered>[0]): void {
    // Without a link: no client could come back to it.
    if (this.stream?.isEphemeral === false) setStreamHeaders(this.#request, this.#id, wire)
    else setUnbuffered(wire)
  }

  /** `undefined`: the request has been repeated, on a newer socket. */
  connect(wire: Sink, profile?: ClientProfile): Connection | undefined {
    const { stream } = this
    // A client that has sent the request again has left this connection behind.
    if (stream === undefined || stream.readers.count > 0) {
      if (!wire.isGone) wire.end()
      return undefined
    }
    const { connections } = this.#request.instance
    return connections.open(stream, 0, wire, profile ?? stream.profile)
  }

  get reportsProgress(): boolean {
    return this.#progress !== undefined
  }

  /** The endpoint has sent an event. */
  heard(block: Uint8Array): void {
    this.#progress?.heard(block)
  }

  stopProgress(): void {
    this.#progress?.stop()
    this.#progress = undefined
  }
}
