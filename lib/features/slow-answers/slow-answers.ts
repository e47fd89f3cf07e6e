// No call is too slow: proxies and runtimes give up a request that is silent for a minute. A client
// that has waited for `upgradeAfter` gets an event stream, and the answer as its event; one that
// takes only JSON gets a head after `jsonKeepAlive`, and white space until its answer (RFC 8259,
// section 2). Streamable HTTP leaves it to the server in which of both forms it answers.
import { DueQueue } from '../../streams/due-queue.js'
import { acceptsEvents, JSON_TYPE } from '../../protocol/media-types.js'
import type { Call, SlowAnswers } from '../../endpoint/call.js'
import type { Feature } from '../../endpoint/feature.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext, RequestFacts } from '../../endpoint/request-context.js'
import type { InTheMeantime } from '../../endpoint/run-stream.js'
import { setUnbuffered } from '../../endpoint/stream-headers.js'
import { JsonReply } from './json-reply.js'

interface SlowAnswersSettings {
  /** Milliseconds without a head after which a client gets an event stream; `null`: never. */
  readonly upgradeAfter: number | null
  /**
   * Milliseconds until a client that takes only JSON gets a head, and between spaces; `null`:
   * never.
   */
  readonly jsonKeepAlive: number | null
}

/** Times as long for a client that only claims to read event streams, as servers require it. */
const UNSHOWN = 5

const EVENT_STREAM: InTheMeantime = { name: 'event stream', isDurable: true }
/** For a revision without resumption. */
const CONNECTION: InTheMeantime = { name: 'connection', isDurable: false }

export class SlowCalls implements Feature, SlowAnswers {
  /** Where clients wait that have shown that they read event streams; others wait here first. */
  readonly #soon: DueQueue | undefined
  /** Where the others wait for the rest of their time. */
  readonly #later: DueQueue | undefined
  /** Where clients wait that take only JSON. */
  readonly #json: DueQueue | undefined
  /** What these get. */
  readonly #spaces: InTheMeantime | undefined

  constructor({ upgradeAfter, jsonKeepAlive }: SlowAnswersSettings, parts: InstanceParts) {
    if (upgradeAfter !== null) {
      this.#soon = new DueQueue(upgradeAfter)
      this.#later = new DueQueue(upgradeAfter * (UNSHOWN - 1))
    }
    if (jsonKeepAlive === null) return
    const queue = new DueQueue(jsonKeepAlive)
    this.#json = queue
    this.#spaces = {
      name: 'json',
      isDurable: false,
      answer: (stream, client, { isBatch, facts }) => {
        client.sink.sendHead(200, JSON_TYPE, setUnbuffered)
        const isList = isBatch && facts.count > 0
        new JsonReply(stream, client.sink, isList, queue, parts.connections.outgoing).start()
      }
    }
  }

  /** The process is about to end: clients that wait get nothing in the meantime. */
  beginClosing(): void {
    for (const queue of [this.#soon, this.#later, this.#json]) queue?.close()
  }

  // SlowAnswers

  concerns(request: RequestContext): boolean {
    return request.facts.requestIds.length > 0 && this.#queueOf(request) !== undefined
  }

  queueFor(request: RequestContext): DueQueue | undefined {
    return request.isUnread || mayTakeLong(request.facts) ? this.#queueOf(request) : undefined
  }

  waited(call: Call): void {
    const { request } = call
    request.learnParsed()
    const { instance, profile, keyedCall, facts } = request
    if (!call.isUndecided || instance.isClosing || !mayTakeLong(facts)) return
    if (this.#queueOf(request) === this.#json) {
      // Under a key, the endpoint's own answer is recorded, so the client has to wait for it.
      if (keyedCall === undefined && this.#spaces !== undefined)
        call.openInTheMeantime(this.#spaces)
      return
    }
    if (instance.eventStore.isLeft) return
    if (!call.hasWaited && !hasShown(request)) {
      call.hasWaited = true
      return this.#later?.add(call)
    }
    call.openInTheMeantime(profile.isDurable ? EVENT_STREAM : CONNECTION)
  }

  #queueOf({ req, accept }: RequestContext): DueQueue | undefined {
    if (req.method !== 'POST' || (req.httpVersionMajor === 1 && req.httpVersionMinor === 0))
      return undefined
    return this.#soon !== undefined && acceptsEvents(accept) ? this.#soon : this.#json
  }
}

/** Not that to `initialize`, which says what the client can expect. */
function mayTakeLong({ requestIds, isInitialize }: RequestFacts): boolean {
  return requestIds.length > 0 && !isInitialize
}

/** Whether its client has shown that it reads event streams. Progress comes by events only. */
function hasShown({ instance, prefersStream, owner, session, facts }: RequestContext): boolean {
  const { isOfKnownClient, progressTokens } = facts
  if (prefersStream || isOfKnownClient || progressTokens.length > 0) return true
  return instance.sessions.of(owner, session).readsEvents
}
