// How a client that waits is answered, whoever has what it is given: by an event stream, or by one
// whole answer.
import type { OutgoingHttpHeader } from 'node:http'
import { label } from '../protocol/event-id.js'
import { EVENT_STREAM, JSON_TYPE } from '../protocol/media-types.js'
import { type ClientProfile, ONE_CONNECTION } from '../protocol/revisions.js'
import type { Connection } from '../readers/connection.js'
import { type KeptText, type OutgoingAnswer, sizeOf } from '../readers/outgoing.js'
import type { Stream } from '../streams/stream.js'
import type { Producer, StreamInit } from '../streams/stream-types.js'
import type { ResponseCapture } from '../http/response-capture.js'
import { type ClientSink, type OutgoingHead, responseSink } from '../http/response-sink.js'
import type { CallProgress } from './instance-parts.js'
import type { RequestContext } from './request-context.js'
import { setStreamHeaders, setUnbuffered } from './stream-headers.js'

export type Header = readonly [string, OutgoingHttpHeader]

export const JSON_HEADERS = [
  ['Content-Type', JSON_TYPE],
  ['Cache-Control', 'no-store']
] as const

/** The endpoint at work, whose response is captured. */
interface Run {
  readonly id: string
  readonly response: ResponseCapture
}

export class Answerer {
  /** The stream that its client reads; `undefined`: there is none yet, or no room for it. */
  stream: Stream | undefined
  readonly #request: RequestContext
  readonly #run: Run | undefined
  #sink: ClientSink | undefined
  #progress: CallProgress | undefined
  readonly #startedAt: number

  /**
   * @param run `undefined`: the endpoint does not get the request.
   * @param startedAt when it began to wait; needed where progress is reported.
   */
  constructor(request: RequestContext, run?: Run, startedAt = 0) {
    this.#request = request
    this.#run = run
    this.#startedAt = startedAt
  }

  /** Takes all that its client is given. */
  get sink(): ClientSink {
    const { req, res } = this.#request
    return this.#run?.response.wire ?? (this.#sink ??= responseSink(req, res))
  }

  // An event stream

  /** `undefined`: no room. @param isDurable its client may come back to it. */
  open(producer: Producer, isDurable: boolean, more: Partial<StreamInit> = {}): Stream | undefined {
    const { instance, owner, session, facts, profile, keyedCall } = this.#request
    const { sessionId = session } = more
    const init: StreamInit = {
      id: this.#run?.id ?? instance.newId(),
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

  setStreamHeaders(head: OutgoingHead): void {
    // Without a link: no client could come back to it.
    if (this.stream?.isEphemeral === false) setStreamHeaders(this.#request, this.stream.id, head)
    else setUnbuffered(head)
  }

  sendStreamHead(): boolean {
    return this.sink.sendHead(200, EVENT_STREAM, head => this.setStreamHeaders(head))
  }

  /** `undefined`: the request has been repeated, on a newer socket. */
  connect(profile?: ClientProfile): Connection | undefined {
    const { stream, sink } = this
    // A client that has sent the request again has left this connection behind.
    if (stream === undefined || stream.readers.count > 0) {
      if (!sink.isGone) sink.end()
      return undefined
    }
    const { connections } = this.#request.instance
    return connections.open(stream, 0, sink, profile ?? stream.profile)
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

  // One answer

  answer(status: number, headers: readonly Header[], answer: OutgoingAnswer): void {
    const size = sizeOf(answer)
    const { sink } = this
    const isSent = sink.sendHead(status, undefined, ({ res, methods }) => {
      for (const [name, value] of headers) methods.setHeader.call(res, name, value)
      if (size > 0) methods.setHeader.call(res, 'Content-Length', size)
    })
    if (isSent) this.finish(answer, sink)
  }

  /** What it still gets, behind a head. */
  finish(answer: OutgoingAnswer, sink = this.sink): void {
    const { instance, owner } = this.#request
    instance.connections.outgoing.write(sink, owner, answer)
  }

  /** Keeps an answer for a client that sends its request again, under its key. */
  keep(status: number, headers: readonly Header[], { parts }: OutgoingAnswer): void {
    const { keyedCall, res } = this.#request
    if (keyedCall === undefined) return
    const own = headers.map(([name, value]) => [name.toLowerCase(), value] as const)
    const all = { ...res.getHeaders(), 'content-type': undefined, ...Object.fromEntries(own) }
    keyedCall.settle({ kind: 'answer', status, headers: all, body: Buffer.concat(parts) })
  }
}

/** Gives an answer in JSON that may be large, or a part of it that is kept. */
export function answerWhole(request: RequestContext, json: string, kept?: KeptText): void {
  const { outgoing } = request.instance.connections
  new Answerer(request).answer(200, JSON_HEADERS, outgoing.answerOf(json, kept))
}
