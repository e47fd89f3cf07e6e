// The streams of one session: one for each call, and its own for all other messages.
import { LRUCache } from 'lru-cache'
import { nanoid } from 'nanoid'
import { hashOf } from '../access/guards.js'
import { isComparable } from '../protocol/json-bounds.js'
import { faultError } from '../protocol/errors.js'
import {
  INVALID_REQUEST,
  isObject,
  isOversizedId,
  type Message,
  MOST_ID_LENGTH,
  type RequestId
} from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { type WireMessage, withStreams } from '../protocol/shared-wire.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import { isKnown } from '../streams/directory.js'
import type { Stream } from '../streams/stream.js'
import type { Producer, StreamKind } from '../streams/stream-types.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import type { WireSession } from './wire.js'

/** Wires have neither primers nor hand-offs, at any revision. */
const PROFILE: ClientProfile = {
  isDurable: true,
  primer: 'none',
  reconnects: 'always',
  handoff: 'never'
}

export class SessionStreams {
  readonly requests = new RequestTracker()
  readonly #host: InstanceParts
  readonly #session: WireSession
  #own: Stream | undefined
  readonly #waiting = new Map<Stream, (() => void)[]>()

  constructor(host: InstanceParts, session: WireSession) {
    this.#host = host
    this.#session = session
  }

  get own(): Stream | undefined {
    return this.#own
  }

  /** Its own first, then those of the requests that run. */
  get all(): Stream[] {
    return this.#own === undefined ? this.requests.streams : [this.#own, ...this.requests.streams]
  }

  get areOver(): boolean {
    return this.all.every(({ isEnded }) => isEnded)
  }

  /** The stream for what the server sends unasked. `false`: there is no room. */
  openOwn(): boolean {
    this.#own = this.#open('listen', [], () => this.#session.endIfOver())
    return this.#own !== undefined
  }

  /** The client has sent a request. `false`: it is not to be passed on. */
  accept(message: WireMessage & { readonly id: RequestId; readonly method: string }): boolean {
    const { id, method } = message
    if (typeof id === 'string' && isOversizedId(id))
      return this.#refuse(id, `A request id must not be longer than ${MOST_ID_LENGTH} characters`)
    const request: TrackedRequest = {
      id,
      isAboutServer: method === 'initialize' || method === 'server/discover',
      hash: isComparable(message) ? hashOf(JSON.stringify(message)) : undefined,
      wire: this.#session.wire?.key,
      stream: undefined
    }
    const earlier = this.requests.findEarlier(request)
    if (earlier !== undefined) return this.#again(id, earlier)
    if (this.requests.get(id) !== undefined)
      return this.#refuse(id, 'A request with this id is being answered')
    this.requests.add(request)
    request.stream = this.#open('request', [id], stream => {
      const hadResponse = !this.requests.noteEnd(request) || stream.state === 'completed'
      this.#session.requestOver(id, stream, hadResponse)
    })
    if (request.stream === undefined) this.#host.debug('call left alone: no room')
    return true
  }

  cancel(id: RequestId): void {
    this.requests.early.delete(id)
    const request = this.requests.get(id)
    if (request === undefined) return
    this.requests.noteEnd(request)
    request.stream?.cancelRequest(id)
  }

  /** `false`: certainly no request that waits; not known of those that were not kept. */
  answered(id: RequestId): boolean {
    this.requests.questions.delete(id)
    const isAwaited = this.all.some(({ inputWait }) => inputWait?.requests.mayAwait(id) === true)
    this.all.find(({ openRequests }) => openRequests.has(id))?.answered(id)
    return isAwaited || this.#own === undefined || this.requests.hasUnkept
  }

  /** Waits while the stream is full, until its client reads again or the stream ends. */
  async write(message: WireMessage, relatedRequestId: RequestId | undefined): Promise<void> {
    const request = this.requests.get(relatedRequestId)
    if (request !== undefined && request.stream === undefined)
      return this.#session.wire?.send(message)
    const stream = request?.stream ?? this.#own
    if (stream === undefined || append(stream, message) || stream.isEnded) return
    await new Promise<void>(resolve => {
      const waiting = this.#waiting.get(stream)
      if (waiting === undefined) this.#waiting.set(stream, [resolve])
      else waiting.push(resolve)
    })
  }

  respond(message: Message & { readonly id: RequestId }): Promise<void> | void {
    const request = this.requests.get(message.id)
    if (request === undefined) return
    const { stream, isAboutServer } = request
    const response = { ...(isAboutServer ? declared(message) : message), jsonrpc: '2.0' as const }
    if (stream !== undefined) {
      append(stream, response)
      return stream.producerEnded()
    }
    this.requests.noteEnd(request)
    const sent = this.#session.wire?.send(response)
    this.#session.leaveIfIdle()
    return sent
  }

  /** Answers a request that was sent again on a new wire, without running it twice. */
  #again(id: RequestId, { streamId = '' }: EarlierRequest): false {
    const { wire } = this.#session
    const found = this.#host.table.find(streamId)
    const isWhole = isKnown(found) && found.value.isKept && !found.value.hasEvicted(0)
    if (isWhole) wire?.follow(found.value, 0)
    else wire?.refuse(id, faultError('answer-lost'))
    return false
  }

  #refuse(id: RequestId, message: string): false {
    this.#session.wire?.refuse(id, { code: INVALID_REQUEST, message })
    return false
  }

  /** Opens a stream; `undefined` if there is no room. `over` is called when it has ended. */
  #open(
    kind: StreamKind,
    requestIds: readonly RequestId[],
    over: (stream: Stream) => void
  ): Stream | undefined {
    const { table, resumeInterval, isClosing } = this.#host
    const { id: sessionId, owner } = this.#session
    if (isClosing) return undefined
    const producer: Producer = {
      drain: () => this.#drained(stream as Stream),
      unanswered: ids => this.#session.unanswered(ids),
      streamEnded: () => {
        this.#drained(stream as Stream)
        over(stream as Stream)
      }
    }
    const init = { id: nanoid(), kind, owner, requestIds, sessionId, profile: PROFILE }
    const stream = table.open({ ...init, resumeInterval }, producer)
    if (stream !== undefined) this.#session.wire?.follow(stream, 0)
    return stream
  }

  #drained(stream: Stream): void {
    const waiting = this.#waiting.get(stream) ?? []
    this.#waiting.delete(stream)
    for (const resolve of waiting) resolve()
  }
}

/** `false`: the stream is full, or has ended. */
function append(stream: Stream, message: WireMessage): boolean {
  return stream.appendBlock(encodeMessage(JSON.stringify(message)))
}

/** Adds the declaration of streams to the server's capabilities. */
function declared(message: Message): Message {
  if (!isObject(message.result)) return message
  const { result } = message
  return { ...message, result: { ...result, capabilities: withStreams(result['capabilities']) } }
}

interface TrackedRequest {
  readonly id: RequestId
  readonly isAboutServer: boolean
  /** Lives as long as the session, unlike the request; `undefined`: that is too large. */
  readonly hash: string | undefined
  readonly wire: symbol | undefined
  /** `undefined`: there was no room for it, so its messages are not kept. */
  stream: Stream | undefined
}

interface EarlierRequest extends Pick<TrackedRequest, 'hash' | 'wire'> {
  /** `undefined`: its messages are not kept. */
  readonly streamId: string | undefined
}

/** Ended requests, in case a client lost the wire before it knew their streams. */
const MOST_ENDED = 1000
/** Requests of the server without an answer that are remembered. */
const MOST_QUESTIONS = 1000

class RequestTracker {
  readonly #running = new Map<RequestId, TrackedRequest>()
  // With `max`, the cache would allocate its tables at once.
  readonly #ended = new LRUCache<RequestId, EarlierRequest>({
    maxSize: MOST_ENDED,
    sizeCalculation: () => 1
  })

  /** Requests that came before the client declared streams, and have no response yet. */
  readonly early = new Set<RequestId>()

  /** Requests of the server without an answer, for as long as the session is not resumable. */
  readonly questions = new Set<RequestId>()

  /** Notes such a request. Only the newest are remembered, because an answer may never come. */
  noteQuestion(id: RequestId): void {
    this.questions.add(id)
    const [oldest] = this.questions
    if (this.questions.size > MOST_QUESTIONS && oldest !== undefined) this.questions.delete(oldest)
  }

  add(request: TrackedRequest): void {
    this.#running.set(request.id, request)
  }

  /** Notes that a request has ended. `false`: it had ended before. */
  noteEnd(request: TrackedRequest): boolean {
    if (this.#running.get(request.id) !== request) return false
    this.#running.delete(request.id)
    this.#ended.set(request.id, traceOf(request))
    return true
  }

  get(id: RequestId | undefined): TrackedRequest | undefined {
    return id === undefined ? undefined : this.#running.get(id)
  }

  /** A client that loses its wire may send a request again, which may have arrived. */
  findEarlier({ id, hash, wire }: TrackedRequest): EarlierRequest | undefined {
    const running = this.#running.get(id)
    const known = running === undefined ? this.#ended.get(id) : traceOf(running)
    if (known === undefined || known.wire === wire || hash === undefined) return undefined
    return known.hash === hash ? known : undefined
  }

  get streams(): Stream[] {
    return [...this.#running.values()]
      .map(({ stream }) => stream)
      .filter(stream => stream !== undefined)
  }

  get isIdle(): boolean {
    return this.#running.size === 0 && this.early.size === 0
  }

  /** Whether any request runs whose messages are not kept. */
  get hasUnkept(): boolean {
    return (
      this.early.size > 0 || [...this.#running.values()].some(({ stream }) => stream === undefined)
    )
  }
}

/** What is remembered of an ended request: its stream must not be kept in memory for it. */
function traceOf({ hash, wire, stream }: TrackedRequest): EarlierRequest {
  return { hash, wire, streamId: stream?.id }
}
