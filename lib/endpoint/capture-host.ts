// What the capture of a response needs from its request.
import type { IncomingMessage } from 'node:http'
import { now } from '../protocol/clock.js'
import type { RequestId } from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import type { ByteBudget } from '../streams/event-log.js'
import type { Stream } from '../streams/stream.js'
import type { Connection } from '../readers/connection.js'
import { JsonReply } from '../readers/json-reply.js'
import { type DebugLog, resumeAtEndpoint } from './endpoint-client.js'
import type { ResumptionHost } from './endpoint-resumption.js'
import type { HandlerContext } from './handler-context.js'
import { keepBody } from './node-internals.js'
import type { InitializeAnswer } from './outcome.js'
import type { ProgressReport } from './progress-reports.js'
import type { RequestContext } from './request-context.js'
import type { ResponseCapture } from './response-capture.js'
import { setStreamHeaders, setUnbuffered } from './stream-headers.js'
import { warnOfMissed } from './warnings.js'

/** What a client gets while it waits for a slow endpoint. */
export type InTheMeantime = 'event stream' | 'connection' | 'json'

export class CaptureHost implements ResumptionHost {
  initialize: InitializeAnswer | undefined
  protected readonly request: RequestContext
  protected readonly handler: HandlerContext
  protected readonly response: ResponseCapture
  protected meantime: InTheMeantime | undefined
  /** The answer to a call that goes on without its client. */
  protected interim: Buffer | undefined
  readonly #startedAt: number

  constructor(request: RequestContext, handler: HandlerContext, response: ResponseCapture) {
    this.request = request
    this.handler = handler
    this.response = response
    this.#startedAt = request.instance.progress === undefined ? 0 : now()
  }

  /** Bytes that an unfinished event may have. */
  get maxEventBytes(): number {
    return this.request.instance.maxEventBytes
  }

  /** Bytes that a body may have that becomes messages. */
  get maxAnswerBytes(): number {
    return this.request.instance.maxAnswerBytes
  }

  /** Where unfinished events and bodies are counted. */
  get budget(): ByteBudget {
    return this.request.instance.table.budget
  }

  /** Milliseconds for which an endpoint may close its stream again and again without an event. */
  get maxSilence(): number {
    return this.request.instance.resumeInterval.max * 1000
  }

  get debug(): DebugLog['debug'] {
    return this.request.instance.debug
  }

  /** Asks the endpoint for what follows one of its events, in the name of the client. */
  resume(lastEventId: string, signal: AbortSignal): Promise<IncomingMessage> {
    const { req, revision } = this.request
    const sessionId = this.handler.stream?.sessionId
    return resumeAtEndpoint(req, { lastEventId, signal, sessionId, revision })
  }

  disconnect(retry: number | undefined): void {
    this.handler.disconnect(retry === undefined ? {} : { retry })
  }

  /** An answer has headers that come too late for its client. */
  missed(headers: readonly string[], sessionId: string | undefined): void {
    const { instance, session } = this.request
    const isOwn = sessionId === undefined || instance.sessions.nameOf(sessionId) === session
    warnOfMissed(headers.filter(name => name !== 'mcp-session-id' || !isOwn))
  }

  /** A head of ours before the endpoint's; `undefined`: one answer, no connection. */
  beginEarly(stream: Stream): Connection | undefined {
    if (this.interim !== undefined) {
      this.#answerInterim(this.interim)
      return undefined
    }
    const { instance, facts, isBatch } = this.request
    const { slow, connections } = instance
    const { wire } = this.response
    if (this.meantime === 'json' && slow.json !== undefined) {
      wire.sendEarlyHead('application/json', () => setUnbuffered(wire))
      const isList = isBatch && facts.count > 0
      new JsonReply(stream, wire, isList, slow.json, connections).start()
      return undefined
    }
    wire.sendEarlyHead('text/event-stream', () =>
      this.meantime === 'event stream' ? this.setHeaders() : setUnbuffered(wire)
    )
    return this.connect(stream)
  }

  reportProgress(stream: Stream): ProgressReport | undefined {
    const { instance, facts } = this.request
    if (this.interim !== undefined) return undefined
    return instance.progress?.begin(stream, facts.progressTokens, this.#startedAt)
  }

  setHeaders(): void {
    const { wire } = this.response
    // Without a link: no client could come back to it.
    if (this.handler.stream?.isEphemeral === true) setUnbuffered(wire)
    else setStreamHeaders(this.request, this.handler.id, wire)
  }

  /** `undefined`: the request has been repeated, on a newer socket. */
  connect(stream: Stream): Connection | undefined {
    // A client that has sent the request again has left this connection behind.
    if (stream.readers.count > 0) {
      if (!this.response.wire.isGone) this.response.wire.end()
      return undefined
    }
    const { profile } = this.request
    // Nothing is agreed before `initialize` is answered.
    const first: ClientProfile =
      this.initialize !== undefined
        ? { ...profile, primer: 'none', reconnects: 'when-links-followed' }
        : stream.isEphemeral
          ? stream.profile
          : profile
    const connection = this.request.instance.connections.open(stream, 0, this.response.wire, first)
    this.handler.connected()
    return connection
  }

  /** Tells the endpoint that these requests of its own will not be answered. */
  unanswered(requestIds: readonly RequestId[]): void {
    const { instance, req } = this.request
    const { sessionId } = this.handler.stream ?? {}
    instance.unanswered.tell(req, requestIds, sessionId)
  }

  /** The response has turned out to be one of the HTTP+SSE transport, which passes untouched. */
  left(stream: Stream): void {
    const { table, debug } = this.request.instance
    this.handler.isUntaken = true
    table.forget(stream)
    debug('response left alone: HTTP+SSE')
  }

  #answerInterim(body: Buffer): void {
    const { req } = this.request
    const { wire } = this.response
    // The endpoint may read the body later, and Node would drop it with the end of the response.
    keepBody(req)
    wire.sendEarlyHead('application/json', () => {
      wire.setHeader('Cache-Control', 'no-store')
      wire.setHeader('Content-Length', String(body.length))
    })
    if (wire.isOver) return
    wire.write(body)
    wire.end()
  }
}
