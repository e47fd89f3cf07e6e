// A request for something that another instance has: it is forwarded whole, and its response is
// passed on to the client as it is written there. What the client has been given meanwhile:
//
//              the other is silent             a head of events
//   nothing -------------------------> opened -----------------+
//    |  |                                                      v
//    |  |              a head of events                        events
//    |  +----------------------------------------------------> |
//    |                                                         |
//    |  another head                                           |
//    +----------------> answer                                 |
//                         |                                    |
//                         +-----------> over <-----------------+
//
// `opened` has the head of an event stream, and comments, from here: a client that asks for events
// waits for longer than its connection can be silent. From everywhere it leads to `over`.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Break, Exchange, ExchangeUser } from './relay.js'
import { now } from '../protocol/clock.js'
import type { StreamFault } from '../protocol/errors.js'
import type { RequestId } from '../protocol/json-rpc.js'
import { KEEP_ALIVE_COMMENT } from '../protocol/sse-writer.js'
import { acceptsEvents } from '../protocol/media-types.js'
import {
  breakOff,
  canAnswer,
  claim,
  endGuarded,
  guarded,
  isWritable,
  refuse,
  writeGuarded
} from '../http/reply.js'
import { Timer } from '../streams/timer.js'
import { headerOf } from '../access/guards.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { writeEventsHead } from '../endpoint/stream-headers.js'
import type { RelayKind } from '../http/loopback.js'
import { closeAfter } from '../http/sockets.js'
import { parseEventId } from '../protocol/event-id.js'
import type { Context } from '../routes/route.js'
import { type DueQueue, Waiting } from '../streams/due-queue.js'
import {
  decodeHead,
  encodeHead,
  isEventStream,
  type MountedRequest,
  requestHead,
  type RelayedHead,
  streamIn,
  takesComments
} from './relay-head.js'
import type { InstanceLink } from './instance-link.js'
import type { MovedSessions } from './moved-sessions.js'
import type { RelayedResponses } from './relayed-responses.js'
import { tellBroken, tellGone } from './tell-gone.js'

/** What it takes to reach other instances. */
export interface RelayParts {
  readonly link: InstanceLink
  /** Milliseconds of silence after which a comment keeps a connection open; `null`: never. */
  readonly keepAlive: number | null
  /** Where responses that other instances write wait for that time. */
  readonly silences: DueQueue | undefined
  readonly responses: RelayedResponses
  /** Instances that have handed a request back, and those that it was passed on to in vain. */
  readonly handedBack: HandedBack
  readonly moved: MovedSessions
  /** Answers a request anew, which such an instance has handed back. */
  readonly answerAgain: (context: Context) => void
}

interface RelayOptions {
  readonly relay: RelayParts
  readonly tag: string
  readonly kind: RelayKind
  readonly maxBodyBytes: number
  readonly debug: (format: string, ...args: unknown[]) => void
  readonly body?: string | undefined
  /** An event with the client's cursor: stock clients forget an id that a connection lacks. */
  readonly primer: string
  readonly requestIds: readonly RequestId[]
  /** Called when it is gone before the client got anything but the head of an event stream. */
  readonly gone: () => void
  /** Called when it leaves, or has left, and has begun nothing. */
  readonly handedBack: () => void
}

/** Milliseconds for which the head of an event stream waits for the first bytes of its body. */
const HEAD_ALONE = 100
/** Leases after which an event stream is begun with a comment, and after which the wait ends. */
const SILENCE = 5 / 6
const PATIENCE = 2

/** What the client has been given. */
type Given =
  | { readonly is: 'nothing' | 'opened' | 'answer' }
  | {
      readonly is: 'events'
      readonly events: PassedEvents
      readonly streamId: string | undefined
    }

export class RelayedResponse implements ExchangeUser {
  readonly #req: MountedRequest
  readonly #res: ServerResponse
  readonly #options: RelayOptions
  readonly #exchange: Exchange
  #state: Given | { readonly is: 'over' } = { is: 'nothing' }
  /** This instance leaves: the client is to come back to another one. */
  #isLeaving = false
  #waitsSince = now()
  readonly #timer = new Timer(() => guarded(this.#res, () => this.#silent()))

  constructor(req: MountedRequest, res: ServerResponse, options: RelayOptions) {
    this.#req = req
    this.#res = res
    this.#options = options
    const { relay, tag } = options
    this.#exchange = relay.link.open(tag, this)
  }

  forward(): void {
    const [req, res] = [this.#req, this.#res]
    const { relay, body, maxBodyBytes } = this.#options
    // If middleware in front ends the response, a later write fails. `close` follows in any case.
    res.on('error', () => undefined)
    res.on('drain', () => this.#exchange.resume())
    res.once('close', () => (this.#state.is === 'over' ? undefined : this.#stop()))
    if (!relay.responses.add(this)) return this.cut()
    this.#exchange.write(encodeHead(requestHead(req, this.#options.kind, body)))
    this.#timer.start(relay.link.backplane.lease * SILENCE)
    if (body !== undefined) {
      this.#exchange.write(Buffer.from(body))
      this.#exchange.end()
    } else sendBody(req, this.#exchange, maxBodyBytes, () => this.#refuse(413, 'body-too-large'))
  }

  /** This instance leaves: listen channels end now, wherever they are. */
  stopListening(): void {
    closeAfter(this.#req, this.#res)
    if (isListening(this.#req)) this.leave()
  }

  /** This instance leaves. A client that has resumed a stream is ended after a whole event. */
  leave(): void {
    this.#isLeaving = this.#req.method === 'GET'
    this.#leaveOnceBegun()
  }

  #leaveOnceBegun(): void {
    const state = this.#state
    if (!this.#isLeaving || state.is === 'over' || !canGoOn(state)) return
    const hasCursor = state.is === 'events' ? state.events.hasPassed : state.is === 'opened'
    // A client that only listens loses nothing by a connection without an event.
    if (hasCursor || (this.#res.headersSent && isListening(this.#req))) this.#comeAgain()
  }

  /** Ends it now: this instance leaves and can wait no longer. */
  cut(): void {
    const res = this.#res
    const given = this.#stop()
    if (canAnswer(res)) refuse(res, 503, 'closing')
    else if (isWritable(res)) this.#breakOff(given)
  }

  // ExchangeUser

  readonly drained = (): void => void this.#req.resume()

  readonly bytes = (bytes: Uint8Array): boolean => {
    if (this.#state.is !== 'nothing' && this.#state.is !== 'opened') return this.#write(bytes)
    try {
      this.#headCame(decodeHead<RelayedHead>(bytes))
    } catch {
      this.#refuse(502, 'endpoint-failed')
    }
    return true
  }

  readonly end = (): void => {
    this.#over()
    endGuarded(this.#res)
  }

  readonly broken = (why: Break): void => {
    const given = this.#over()
    if (!isWritable(this.#res)) return
    this.#options.debug('a relayed request broke off: %s', why)
    const hasHead = given.is === 'answer' || given.is === 'events'
    if (!hasHead && why === 'left') return this.#handedBack(given)
    if (!hasHead && why === 'gone') return this.#options.gone()
    if (given.is === 'nothing') return refuse(this.#res, 502, 'endpoint-failed')
    if (why === 'reset' || !canGoOn(given)) return this.#breakOff(given)
    void this.#tellGone(given)
  }

  /** Declared first, so that the other instance, if alive, does not answer as well. */
  async #tellGone(given: Given): Promise<void> {
    const { relay, tag, requestIds } = this.#options
    const streamId = given.is === 'events' ? given.streamId : undefined
    const isGone = streamId === undefined || (await relay.link.declareGone(streamId, tag))
    if (!isWritable(this.#res)) return
    if (isGone) tellGone(this.#req, this.#res, requestIds)
    else this.#res.end()
  }

  /** Ends an incomplete response so that the client does not take it for a complete one. */
  #breakOff(given: Given): void {
    const mayComeBack =
      given.is === 'events' && (given.streamId !== undefined || given.events.hasIds)
    if (!canGoOn(given)) breakOff(this.#res)
    else if (mayComeBack) endGuarded(this.#res)
    else tellBroken(this.#res, this.#options.requestIds)
  }

  #comeAgain(): void {
    this.#stop()
    endGuarded(this.#res)
  }

  #handedBack(given: Given): void {
    if (given.is === 'opened') this.#comeAgain()
    else this.#options.handedBack()
  }

  #headCame(head: RelayedHead): void {
    const res = this.#res
    this.#timer.stop()
    if (head.isHandedBack) return this.#handedBack(this.#stop())
    const { status, headers } = head
    const isStream = isEventStream(head)
    if (this.#state.is === 'opened') {
      // A status cannot be sent any more: the client comes again, and gets the answer then.
      if (status === 200 && isStream) this.#passEvents(head)
      else this.#comeAgain()
      return
    }
    if (!claim(res)) return void this.#stop()
    res.statusCode = status
    for (const [name, value] of headers) res.setHeader(name, value)
    // With its first bytes: a stock client that is cut off in between forgets its cursor.
    if (isStream) {
      res.writeHead(status)
      this.#timer.start(HEAD_ALONE)
      this.#passEvents(head)
    } else {
      this.#state = { is: 'answer' }
      res.flushHeaders()
    }
  }

  #passEvents(head: RelayedHead): void {
    const silences = takesComments(head) ? this.#options.relay.silences : undefined
    const events = new PassedEvents(silences, () => {
      if (!this.#res.writableNeedDrain) this.#write(KEEP_ALIVE_COMMENT)
    })
    this.#state = { is: 'events', events, streamId: streamIn(head) }
  }

  #write(bytes: Uint8Array): boolean {
    const res = this.#res
    if (!isWritable(res)) return true
    if (this.#state.is === 'events') this.#state.events.passed(bytes)
    const hasRoom = writeGuarded(res, () => res.write(bytes))
    this.#leaveOnceBegun()
    return hasRoom
  }

  /** Nothing has come from the other instance for a while: it may be gone, or out of reach. */
  #silent(): void {
    const res = this.#res
    const isOpened = this.#state.is === 'opened'
    if (this.#state.is !== 'nothing' && !isOpened) {
      res.flushHeaders()
      return this.#leaveOnceBegun()
    }
    const { link, keepAlive } = this.#options.relay
    const { lease } = link.backplane
    const { isKnown } = this.#exchange
    const left = this.#waitsSince + lease * PATIENCE - now()
    if (this.#req.method === 'GET' && acceptsEvents(this.#req.headers.accept)) {
      if (!link.isUp) this.#waitsSince = now()
      // It lives and does not answer, as with different secrets: another instance may reach it.
      else if (isOpened && !isKnown && left <= 0) return this.#comeAgain()
      if (!isOpened) {
        if (!writeEventsHead(res)) return
        res.write(this.#options.primer)
      }
      this.#state = { is: 'opened' }
      res.write(KEEP_ALIVE_COMMENT)
      this.#timer.start(Math.min(keepAlive ?? Infinity, lease * SILENCE))
      return this.#leaveOnceBegun()
    }
    // It has the request, and its endpoint may take as long as it needs.
    if (isKnown) return
    if (left > 0) return this.#timer.start(left)
    this.#refuse(503, 'owner-unreachable', { 'Retry-After': '1' })
  }

  #refuse(status: number, fault: StreamFault, headers?: Record<string, string>): void {
    this.#stop()
    if (canAnswer(this.#res)) refuse(this.#res, status, fault, headers)
    this.#req.resume()
  }

  /** Returns what the client had by then. */
  #stop(): Given {
    const given = this.#over()
    this.#exchange.reset()
    return given
  }

  #over(): Given {
    const state = this.#state
    if (state.is === 'over') return { is: 'nothing' }
    this.#state = { is: 'over' }
    this.#options.relay.responses.delete(this)
    this.#timer.stop()
    if (state.is === 'events') state.events.stop()
    return state
  }
}

/** Whether an event may be written: the client has nothing yet, or only whole events. */
function canGoOn(given: Given): boolean {
  return given.is === 'events' ? given.events.isAtEnd : given.is === 'opened'
}

/** Whether it is for a listen channel, or goes on with one: its event id names no call. */
function isListening(req: MountedRequest): boolean {
  if (req.method !== 'GET' || streamNamesIn(req).length > 0) return false
  return parseEventId(headerOf(req, 'last-event-id') ?? '')?.requestId === undefined
}

/** The instances that have handed a request back. */
export class HandedBack {
  readonly #tags = new WeakMap<Context, readonly string[]>()

  add(context: Context, tag: string): void {
    this.#tags.set(context, [...this.of(context), tag])
  }

  of(context: Context): readonly string[] {
    return this.#tags.get(context) ?? []
  }
}

/** How many bytes at the end of what was written are looked at. */
const TAIL = 1024

/** Whether an event may follow: a blank line, perhaps with comments and `retry` behind. */
function isAtEnd(bytes: Uint8Array, wasAtEnd: boolean): boolean {
  const tail = tailOf(bytes)
  const blank = tail.lastIndexOf('\n\n')
  const rest = blank < 0 ? tail : tail.slice(blank + 2)
  const isWhole = blank >= 0 || (wasAtEnd && bytes.length <= TAIL)
  return isWhole && /^(?:(?::|retry:)[^\r\n]*\n)*$/.test(rest)
}

function tailOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(-TAIL)).toString('latin1')
}

/** Finds where an event or a comment of ours may follow in a relayed stream. */
class PassedEvents {
  #isAtEnd = true
  #hasPassed = false
  #hasIds = false
  readonly #silences: DueQueue | undefined
  readonly #silence: Waiting

  /** @param silent called when nothing was passed on for a while, and a comment may follow. */
  constructor(silences: DueQueue | undefined, silent: () => void) {
    this.#silences = silences
    this.#silence = new Waiting(() => {
      this.#wait()
      if (this.#isAtEnd) silent()
    })
    this.#wait()
  }

  /** Whether a new event may follow. */
  get isAtEnd(): boolean {
    return this.#isAtEnd
  }

  get hasPassed(): boolean {
    return this.#hasPassed
  }

  /** Whether an event id was seen, so that the client may be able to come back for the rest. */
  get hasIds(): boolean {
    return this.#hasIds
  }

  passed(bytes: Uint8Array): void {
    this.#hasPassed = true
    this.#isAtEnd = isAtEnd(bytes, this.#isAtEnd)
    this.#hasIds ||= /^id:/m.test(tailOf(bytes))
    this.#wait()
  }

  /** No more bytes come. */
  stop(): void {
    this.#silence.stop()
  }

  #wait(): void {
    this.#silences?.add(this.#silence)
  }
}

/** @param tooLarge called for each chunk that goes beyond `limit` bytes, and is not sent. */
function sendBody(
  req: IncomingMessage,
  exchange: Exchange,
  limit: number,
  tooLarge: () => void
): void {
  let sent = 0
  req.on('data', (chunk: Buffer) => {
    sent += chunk.length
    if (sent > limit) return tooLarge()
    if (!exchange.write(Uint8Array.from(chunk))) req.pause()
  })
  // One that was handed back has been read before.
  if (req.readableEnded) return exchange.end()
  req.once('end', () => exchange.end()).resume()
}
