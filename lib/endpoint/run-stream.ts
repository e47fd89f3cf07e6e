// The stream that an endpoint's response becomes, early or not: from its bytes to events, and how
// its call goes on alone.
import { now } from '../protocol/clock.js'
import type { StreamFault } from '../protocol/errors.js'
import type { Message, RequestId } from '../protocol/json-rpc.js'
import { type ClientProfile, ONE_CONNECTION } from '../protocol/revisions.js'
import { type BlockFields, type BlockListener, fieldOf } from '../protocol/sse-fields.js'
import { dataInText, transientLines } from '../protocol/sse-lines.js'
import { encodeMessage, KEEP_ALIVE_COMMENT } from '../protocol/sse-writer.js'
import type { Connection, Given } from '../readers/connection.js'
import type { Stream } from '../streams/stream.js'
import type { Producer, StreamInit } from '../streams/stream-types.js'
import type { Capture } from '../http/capture-types.js'
import type { LateHead } from '../http/captured-head.js'
import { Answerer, JSON_HEADERS } from './answerer.js'
import type { HandlerContext } from '../http/handler-context.js'
import { warnOfMissed } from '../http/warnings.js'
import { messagesIn, missedHeaders } from './endpoint-answer.js'
import { type AnswerSink, AnswerReader } from './answer-reader.js'
import type { NumberedEvents, NumberedRun } from './instance-parts.js'
import { type InitializeAnswer, noteNotFound, noteRevision } from './outcome.js'
import type { RequestContext } from './request-context.js'
import type { ResponseCapture } from '../http/response-capture.js'
import type { OutgoingHead } from '../http/response-sink.js'

/** Takes over a call's stream, and returns the interim result's JSON; `undefined`: no room. */
export type Interim = (stream: Stream) => string | undefined

/** What came of letting a call go on without its client. */
export type Detachment =
  | 'detached'
  | 'no-room'
  /** It has been answered, or is about to be; or its client has left. */
  | 'too-late'

/** What a client gets while it waits for a slow endpoint. */
export interface InTheMeantime {
  /** For the debug log. */
  readonly name: string
  /** It is a stream to which its client may come back. */
  readonly isDurable: boolean
  /** Begins one answer, which has all that the stream will have. Default: an event stream. */
  readonly answer?: (stream: Stream, client: Answerer, request: RequestContext) => void
}

/** Bytes of comments that are kept until there is a connection: it comes at the end of the tick. */
const LONGEST_LEADING = 64 * 1024

/** A request on its way through the endpoint. */
interface Run extends HandlerContext {
  readonly request: RequestContext
  readonly response: ResponseCapture
}

export class RunStream implements Capture, AnswerSink, Producer, NumberedRun {
  initialize: InitializeAnswer | undefined
  /** Set if the call may go on without its client; called when the endpoint answers it. */
  onAnswered: (() => void) | undefined
  readonly #request: RequestContext
  readonly #run: Run
  readonly #client: Answerer
  /** Where what the endpoint writes goes. */
  #stream: Stream | undefined
  /** Gives its client something before the endpoint has begun to answer. */
  #beginEarly: (() => void) | undefined
  #hasConnected = false
  /** Lines besides events that came before the connection: its client is to have them first. */
  #leading: Uint8Array[] | undefined
  #leadingSize = 0
  readonly #reader: AnswerReader
  /** Events parsed from the current `write()`. */
  #events = 0
  /** The endpoint's head, if the wire has had one of ours before. */
  #lateHead: LateHead | undefined
  /** Set where the endpoint gives its events ids. */
  #numbered: NumberedEvents | undefined

  constructor(run: Run, startedAt: number) {
    const { request } = run
    this.#request = request
    this.#run = run
    this.#client = new Answerer(request, run, startedAt)
    this.#reader = new AnswerReader(this, {
      event: request.instance.maxEventBytes,
      body: request.instance.maxAnswerBytes,
      budget: request.instance.table.budget,
      owner: request.owner
    })
  }

  // How it begins

  /** Takes the endpoint's event stream. `false`: there is no room for it. */
  open(sessionId: string | undefined, hasRoom = false, begunAt?: number): boolean {
    const { instance, req, owner, keyedCall, profile } = this.#request
    const { initialize } = this
    const stream = this.#client.open(this, profile.isDurable, {
      kind: req.method === 'GET' ? 'listen' : 'request',
      sessionId,
      isHandshake: initialize !== undefined,
      isConnecting: true,
      callKey: keyedCall?.key,
      hasRoom,
      begunAt
    })
    if (stream === undefined) return false
    const onResponse =
      initialize === undefined
        ? this.onAnswered
        : (message: Message) => noteRevision(instance, initialize, message)
    if (onResponse !== undefined) stream.onResponse = onResponse
    if (stream.kind === 'listen' && sessionId !== undefined)
      instance.sessions.noteReadsEvents(owner, sessionId)
    this.#started(stream, begunAt !== undefined)
    keyedCall?.settle({ kind: 'stream', streamId: stream.id })
    if (this.#run.response.wire.isGone) this.goesOnAlone()
    return true
  }

  /** Its client was given these events before it was a stream. */
  hasGiven(given: Given, events: readonly Buffer[]): void {
    this.#hasConnected = true
    const connection = this.#client.connect()
    connection?.hasGiven(given)
    for (const event of events) {
      this.write(event)
      // At once, as its client is not behind.
      connection?.hasGiven(given)
    }
    this.#stream?.expire(now())
    this.#run.connected()
  }

  /** What the request takes counts from now on, as it is held for the endpoint alone. */
  goesOnAlone(): void {
    this.#stream?.holdRequest(this.#request.memory)
  }

  /** Gives the wire to a reader while the endpoint has not begun to answer. */
  openInTheMeantime(meantime: InTheMeantime): void {
    const { instance, res, method, keyedCall } = this.#request
    if (res.destroyed || res.writableEnded) return
    const { name, isDurable, answer } = meantime
    const stream = this.#client.open(this, isDurable)
    if (stream === undefined) return
    instance.debug('%s has waited long enough: %s in the meantime', method, name)
    instance.count('upgraded', stream)
    const begin = (): void =>
      answer === undefined ? this.#beginStream(stream) : answer(stream, this.#client, this.#request)
    this.#beginEarly = begin
    this.#run.isLeftAlone = false
    this.#started(stream)
    if (isDurable) keyedCall?.settle({ kind: 'stream', streamId: stream.id })
    this.#run.response.takeEarly(this)
  }

  /** @param askedAs the id that the endpoint knows the call by. Default: the client's. */
  goOnAlone(interim: Interim, askedAs?: RequestId): Detachment {
    const { instance, owner, session, facts } = this.#request
    const current = this.#stream
    if (current?.isEnded === true) return 'too-late'
    const { requestIds } = facts
    const init: StreamInit = {
      id: instance.newId(),
      kind: 'request',
      owner,
      requestIds: askedAs === undefined ? requestIds : [askedAs],
      sessionId: session,
      profile: ONE_CONNECTION,
      isEphemeral: true,
      isUnknown: true
    }
    const stream = instance.table.open(init, this)
    const result = stream && interim(stream)
    if (stream === undefined || result === undefined) {
      if (stream !== undefined) instance.table.forget(stream)
      return 'no-room'
    }
    instance.table.announce(stream)
    const id = JSON.stringify(requestIds[0])
    const answer = `{"jsonrpc":"2.0","id":${id},"result":${result}}`
    // What the endpoint still writes goes to the new stream.
    this.#client.stopProgress()
    this.#stream = stream
    this.#run.goesOnIn(stream)
    if (current !== undefined) current.endWith(answer)
    else {
      const whole = { key: undefined, parts: [Buffer.from(answer)] }
      this.#client.keep(200, JSON_HEADERS, whole)
      const give = (): void => this.#client.answer(200, JSON_HEADERS, whole)
      this.#beginEarly = give
      this.#run.isLeftAlone = false
      this.#run.response.takeEarly(this)
    }
    if (this.#run.response.wire.isGone) this.goesOnAlone()
    return 'detached'
  }

  #started(stream: Stream, isTold = false): void {
    this.#stream = stream
    if (!isTold) this.#client.log(stream)
    this.#run.goesOnIn(stream)
  }

  // Its head, and its first connection

  setHeaders(head: OutgoingHead): void {
    this.#client.setStreamHeaders(head)
  }

  headDue(): void {
    const stream = this.#stream
    if (stream === undefined) return
    this.#hasConnected = true
    if (this.#beginEarly !== undefined) return this.#beginEarly()
    const { wire } = this.#run.response
    const connection = this.#connect()
    if (connection === undefined) return
    wire.cork()
    try {
      for (const lines of this.#leading ?? []) stream.comment(lines)
      this.#leading = undefined
      connection.flush()
    } finally {
      wire.uncork()
    }
    if (!connection.hasWritten && !connection.isClosed) wire.flushHead()
  }

  #beginStream(stream: Stream): void {
    this.#client.sendStreamHead()
    const connection = this.#connect()
    if (connection === undefined || connection.isClosed) return
    connection.flush()
    // Some proxies hold a head back until the first byte of its body.
    if (!connection.hasWritten) stream.comment(KEEP_ALIVE_COMMENT)
  }

  /** `undefined`: the request has been repeated, on a newer socket. */
  #connect(): Connection | undefined {
    const { profile } = this.#request
    // Nothing is agreed before `initialize` is answered.
    const first: ClientProfile | undefined = this.initialize && {
      ...profile,
      primer: 'none',
      reconnects: 'when-links-followed'
    }
    const connection = this.#client.connect(first)
    if (connection !== undefined) this.#run.connected()
    return connection
  }

  // What the endpoint does: Capture

  lateHead(head: LateHead): void {
    this.#lateHead = head
    if (head.status === 404) noteNotFound(this.#request)
    this.#reader.head(head)
  }

  write(bytes: Buffer): boolean {
    const stream = this.#stream
    if (stream === undefined) return false
    this.#events = 0
    const fault = stream.isEnded ? undefined : this.#reader.push(bytes)
    if (fault !== undefined) return stream.fail(fault)
    return !stream.isFull && !stream.isEnded
  }

  /** Without a copy before it is kept: an event takes 6 to 10 % less CPU by it (Node 24). */
  writeText(text: string): boolean | undefined {
    const stream = this.#stream
    const isPlain =
      !this.#client.reportsProgress &&
      this.#numbered === undefined &&
      this.#reader.isBetweenEvents &&
      stream?.kind === 'request'
    const dataFrom = isPlain ? dataInText(text) : 0
    return dataFrom === 0 ? undefined : stream?.appendText(text, dataFrom)
  }

  end(): void {
    this.#reader.end(this.#numbered !== undefined)
    if (!this.#reader.isBody) this.#closed(true)
  }

  abort(): void {
    this.#closed(false)
  }

  #closed(isAtWill: boolean): void {
    if (this.#numbered === undefined) return this.#stream?.producerEnded()
    // An unfinished event comes again as a whole, if the endpoint goes on.
    this.#reader.drop()
    this.#numbered.closed(isAtWill)
  }

  get isFull(): boolean {
    return this.#stream?.isFull ?? false
  }

  // AnswerSink

  readonly onBlock: BlockListener = (bytes, from, to, fields) => {
    const isNumbered = fields.hasId || (fields.dataLines === 0 && hasRetry(bytes, from, to))
    const { instance } = this.#request
    if (isNumbered) this.#numbered ??= instance.eventStore.follow(this, this.#request, this.#run)
    if (this.#numbered === undefined) this.take(bytes, from, to, fields)
    else this.#numbered.take(bytes, from, to, fields)
  }

  /** Takes a block that has no id. */
  take(bytes: Uint8Array, from: number, to: number, fields: BlockFields): void {
    if (fields.dataLines === 0) return this.#pass(bytes, from, to)
    if (this.#client.reportsProgress) this.#client.heard(bytes.subarray(from, to))
    this.#stream?.append(bytes, from, to, fields, this.#events++ > 0)
  }

  /** It comes after its client's event stream has begun: it becomes messages. */
  body(body: Buffer): void {
    const stream = this.#stream
    const head = this.#lateHead
    if (stream === undefined || head === undefined || stream.isEnded) return
    this.#warnOfMissed(head)
    // As if in one write, because the endpoint could not be asked to wait in between.
    for (const [i, { message, text }] of messagesIn(head, body, stream.owed).entries())
      stream.appendRead(encodeMessage(text), [message], i > 0)
    stream.producerEnded()
  }

  failed(fault: StreamFault): void {
    if (fault === 'no-response') this.#stream?.producerEnded()
    else this.#stream?.fail(fault)
  }

  #warnOfMissed({ header }: LateHead): void {
    const session = header('mcp-session-id')
    const isOwn = session === undefined || session === this.#request.session
    warnOfMissed(missedHeaders(header).filter(name => name !== 'mcp-session-id' || !isOwn))
  }

  #pass(bytes: Uint8Array, from: number, to: number): void {
    const lines = transientLines(bytes, from, to)
    if (lines.length === 0) return
    if (this.#hasConnected) return this.#stream?.comment(lines)
    this.#leadingSize += lines.length
    if (this.#leadingSize > LONGEST_LEADING) return
    this.#leading ??= []
    this.#leading.push(lines)
  }

  // Producer

  drain(): void {
    this.#run.response.drain()
    this.#numbered?.drain()
  }

  /** Tells the endpoint that these requests of its own will not be answered. */
  unanswered(requestIds: readonly RequestId[]): void {
    const { instance, req } = this.#request
    instance.unanswered.tell(req, requestIds, this.#run.stream?.sessionId)
  }

  streamEnded(): void {
    // The endpoint may keep its response for long: what is unfinished must not stay with it.
    this.#reader.drop()
    this.#numbered?.stop()
    this.#client.stopProgress()
    this.#run.response.showClose()
  }
}

function hasRetry(bytes: Uint8Array, from: number, to: number): boolean {
  return fieldOf(bytes, from, to, 'retry') !== undefined
}
