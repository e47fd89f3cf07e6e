// No call is too slow: proxies and runtimes give up a request that is silent for a minute. A client
// that has waited for `upgradeAfter` gets an event stream, and the answer as its event; one that
// takes only JSON gets a head after `jsonKeepAlive`, and white space until its answer (RFC 8259,
// section 2). Streamable HTTP leaves it to the server in which of both forms it answers.
import { DueQueue, Waiting } from '../../streams/due-queue.js'
import { acceptsEvents } from '../../protocol/media-types.js'
import type { Feature } from '../../endpoint/feature.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import type { RequestFacts } from '../../endpoint/request-facts.js'
import type { InTheMeantime } from '../../endpoint/run-stream.js'
import { setUnbuffered } from '../../endpoint/stream-headers.js'
import type { SlowAnswers, StreamedRun } from '../../endpoint/streamed-run.js'
import { inSameContext } from '../../http/handler-context.js'
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
  readonly slow: SlowAnswers = this
  /** Where clients wait that have shown that they read event streams; others wait here first. */
  readonly #soon: DueQueue | undefined
  /** Where the others wait for the rest of their time. */
  readonly later: DueQueue | undefined
  /** Where clients wait that take only JSON. */
  readonly #json: DueQueue | undefined
  /** What these get. */
  readonly #spaces: InTheMeantime | undefined

  constructor({ upgradeAfter, jsonKeepAlive }: SlowAnswersSettings, parts: InstanceParts) {
    if (upgradeAfter !== null) {
      this.#soon = new DueQueue(upgradeAfter)
      this.later = new DueQueue(upgradeAfter * (UNSHOWN - 1))
    }
    if (jsonKeepAlive === null) return
    const queue = new DueQueue(jsonKeepAlive)
    this.#json = queue
    this.#spaces = {
      name: 'json',
      isDurable: false,
      answer: (stream, wire, { isBatch, facts }) => {
        wire.sendEarlyHead('application/json', () => setUnbuffered(wire))
        const isList = isBatch && facts.count > 0
        new JsonReply(stream, wire, isList, queue, parts.connections.outgoing).start()
      }
    }
  }

  /** The process is about to end: clients that wait get nothing in the meantime. */
  beginClosing(): void {
    for (const queue of [this.#soon, this.later, this.#json]) queue?.close()
  }

  // SlowAnswers

  concerns(request: RequestContext): boolean {
    return request.facts.requestIds.length > 0 && this.#queueFor(request) !== undefined
  }

  begin(request: RequestContext, run: StreamedRun): Waiting | undefined {
    const { facts, isUnread } = request
    const queue = isUnread || mayTakeLong(facts) ? this.#queueFor(request) : undefined
    if (queue === undefined) return undefined
    const meantime = queue === this.#json ? this.#spaces : undefined
    const wait = new HeadWait(this, request, run, meantime)
    queue.add(wait)
    return wait
  }

  /** The queue in which a request waits for its answer; `undefined`: none. */
  #queueFor({ req, accept }: RequestContext): DueQueue | undefined {
    if (req.method !== 'POST' || (req.httpVersionMajor === 1 && req.httpVersionMinor === 0))
      return undefined
    return this.#soon !== undefined && acceptsEvents(accept) ? this.#soon : this.#json
  }
}

/** The wait for an endpoint to begin its answer, and what its client gets if that takes long. */
class HeadWait extends Waiting {
  readonly #calls: SlowCalls
  readonly #request: RequestContext
  readonly #run: StreamedRun
  /** `undefined`: an event stream. */
  readonly #meantime: InTheMeantime | undefined
  #hasWaitedLonger = false

  constructor(
    calls: SlowCalls,
    request: RequestContext,
    run: StreamedRun,
    meantime: InTheMeantime | undefined
  ) {
    super(inSameContext(() => this.#isDue()))
    this.#calls = calls
    this.#request = request
    this.#run = run
    this.#meantime = meantime
  }

  #isDue(): void {
    const request = this.#request
    request.learnParsed()
    const { instance, profile, keyed, facts } = request
    const run = this.#run
    if (!run.isUndecided || instance.isClosing) return
    if (!mayTakeLong(facts)) return run.stopWaiting()
    if (this.#meantime !== undefined) {
      // Under a key, the endpoint's own answer is recorded, so the client has to wait for it.
      return keyed === undefined ? run.openInTheMeantime(this.#meantime) : run.stopWaiting()
    }
    if (instance.eventStore?.isLeft === true) return
    if (!this.#hasWaitedLonger && !hasShown(request)) {
      this.#hasWaitedLonger = true
      return this.#calls.later?.add(this)
    }
    run.openInTheMeantime(profile.taken ? EVENT_STREAM : CONNECTION)
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
