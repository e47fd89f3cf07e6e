// The streams of one session: one for each call of its client, and its own for all else that the
// server says.
import { isComparable } from '../protocol/comparable.js'
import { faultError } from '../protocol/errors.js'
import {
  isOversizedId,
  type Message,
  MOST_ID_LENGTH,
  type RequestId
} from '../protocol/json-rpc.js'
import type { WireMessage } from '../protocol/shared-wire.js'
import { INVALID_REQUEST } from '../protocol/stream-messages.js'
import type { Stream } from '../streams/stream.js'
import type { StreamKind } from '../streams/stream-types.js'
import { declared, isAboutServer } from './messages.js'
import { type Call, RequestTracker } from './request-tracker.js'
import type { StreamsHost } from './shared-streams.js'
import { StreamWriter } from './stream-writer.js'
import type { SessionWire } from './wire-session.js'

/** What is to be known of the session. */
export interface StreamsSession {
  readonly id: string
  readonly owner: string
  /** The wire that its client is on now. */
  readonly wire: () => SessionWire | undefined
  /** A call's stream is over. `hadResponse`: nobody wants one any more. */
  readonly callOver: (call: Call, stream: Stream, hadResponse: boolean) => void
  /** A call has been answered whose messages were not kept. */
  readonly answered: () => void
  /** Its own stream is over. */
  readonly ownOver: () => void
  /** Its client will not answer these any more. */
  readonly unanswered: (ids: readonly RequestId[]) => void
}

export class SessionStreams {
  readonly calls = new RequestTracker()
  readonly #host: StreamsHost
  readonly #session: StreamsSession
  readonly #writer: StreamWriter
  /** What belongs to no call. */
  #own: Stream | undefined

  constructor(host: StreamsHost, session: StreamsSession) {
    this.#host = host
    this.#session = session
    this.#writer = new StreamWriter(host)
  }

  get own(): Stream | undefined {
    return this.#own
  }

  /** Its own first, then those of the calls that run. */
  get all(): Stream[] {
    return this.#own === undefined ? this.calls.streams : [this.#own, ...this.calls.streams]
  }

  /** Some messages have gone out that are not kept: who answers what is not known for certain. */
  get hasUnkept(): boolean {
    return this.#own === undefined || this.calls.hasUnkept
  }

  /** What the server says without being asked is kept from now on. `false`: there is no room. */
  openOwn(): boolean {
    this.#own = this.#open('listen', [], this.#session.ownOver)
    return this.#own !== undefined
  }

  /** A request comes in. `false`: it is not to be passed on. */
  begin(message: WireMessage & { readonly id: RequestId; readonly method: string }): boolean {
    const { id, method } = message
    if (typeof id === 'string' && isOversizedId(id))
      return this.#refuse(id, `A request id must not be longer than ${MOST_ID_LENGTH} characters`)
    const hash = isComparable(message) ? this.#host.hash(JSON.stringify(message)) : undefined
    const wire = this.#session.wire()
    const call: Call = { id, isAboutServer: isAboutServer(method), hash, wire, stream: undefined }
    const earlier = this.calls.findEarlier(call)
    if (earlier !== undefined) return this.#again(earlier)
    if (this.calls.get(id) !== undefined)
      return this.#refuse(id, 'A request with this id is being answered')
    this.calls.begin(call)
    call.stream = this.#open('request', [id], stream => {
      const hadResponse = !this.calls.end(call) || stream.state === 'completed'
      this.#session.callOver(call, stream, hadResponse)
    })
    if (call.stream === undefined) this.#host.debug('call left alone: no room')
    return true
  }

  /** Gives the client a message that belongs to a call, or to none. Waits for room. */
  async write(message: WireMessage, relatedRequestId: RequestId | undefined): Promise<void> {
    const call = this.calls.get(relatedRequestId)
    if (call !== undefined && call.stream === undefined) return this.#session.wire()?.send(message)
    const stream = call?.stream ?? this.#own
    if (stream !== undefined) await this.#writer.write(stream, message)
  }

  respond(message: Message & { readonly id: RequestId }): Promise<void> | void {
    const call = this.calls.get(message.id)
    if (call === undefined) return
    const response = {
      ...(call.isAboutServer ? declared(message) : message),
      jsonrpc: '2.0' as const
    }
    if (call.stream !== undefined) return this.#writer.finish(call.stream, response)
    this.calls.end(call)
    const sent = this.#session.wire()?.send(response)
    this.#session.answered()
    return sent
  }

  /** A call that is sent again on a new wire: it does not run twice. */
  #again({ id, stream }: Call): false {
    const wire = this.#session.wire()
    if (stream !== undefined && stream.log.first === 1 && stream.last > 0) wire?.follow(stream, 0)
    else wire?.refuse(id, faultError('answer-lost'))
    return false
  }

  #refuse(id: RequestId, message: string): false {
    this.#session.wire()?.refuse(id, { code: INVALID_REQUEST, message })
    return false
  }

  #open(
    kind: StreamKind,
    requestIds: readonly RequestId[],
    over: (stream: Stream) => void
  ): Stream | undefined {
    const { id: sessionId, owner, unanswered } = this.#session
    const stream = this.#writer.open({ kind, owner, requestIds, sessionId }, over, unanswered)
    if (stream !== undefined) this.#session.wire()?.follow(stream, 0)
    return stream
  }
}
