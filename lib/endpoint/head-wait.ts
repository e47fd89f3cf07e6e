// The wait for an endpoint to begin its answer, and what its client gets if that takes long.
import { isInitialize, isRequest, type Message } from '../protocol/json-rpc.js'
import { type DueQueue, Waiting } from '../streams/due-queue.js'
import type { RequestContext } from './request-context.js'
import type { InTheMeantime } from './capture-host.js'

/** The run that waits. */
export interface WaitingRun {
  /** The endpoint has not begun to answer. */
  readonly isUndecided: boolean
  /** The wait is over: the client gets something in the endpoint's place. */
  openInTheMeantime(meantime: InTheMeantime): void
  /** The wait is over, and the client waits for the endpoint. */
  stopWaiting(): void
}

export class HeadWait extends Waiting {
  readonly #request: RequestContext
  readonly #run: WaitingRun
  readonly #queue: DueQueue
  #hasWaitedLonger = false

  /** `undefined`: this request just waits for the endpoint, however long that takes. */
  static begin(request: RequestContext, run: WaitingRun): HeadWait | undefined {
    const { instance, messages, isUnread } = request
    const queue = isUnread || maySlow(messages) ? instance.slow.queueFor(request) : undefined
    if (queue === undefined) return undefined
    const wait = new HeadWait(request, run, queue)
    queue.add(wait)
    return wait
  }

  private constructor(request: RequestContext, run: WaitingRun, queue: DueQueue) {
    super(() => this.#isDue())
    this.#request = request
    this.#run = run
    this.#queue = queue
  }

  #isDue(): void {
    this.#request.learnParsed()
    const { instance, profile, keyed, messages } = this.#request
    const { slow, isClosing, eventStore } = instance
    const run = this.#run
    if (!run.isUndecided || isClosing) return
    if (!maySlow(messages)) return run.stopWaiting()
    if (this.#queue === slow.json) {
      // Under a key, the endpoint's own answer is recorded, so the client has to wait for it.
      return keyed === undefined ? run.openInTheMeantime('json') : run.stopWaiting()
    }
    if (eventStore === 'leave') return
    if (!this.#hasWaitedLonger && !slow.hasShown(this.#request)) {
      this.#hasWaitedLonger = true
      return slow.later?.add(this)
    }
    run.openInTheMeantime(profile.taken ? 'event stream' : 'connection')
  }
}

/**
 * Whether an answer to these messages may be slow: not that to `initialize`, which says what the
 * client can expect.
 */
function maySlow(messages: readonly Message[]): boolean {
  return messages.some(isRequest) && !messages.some(isInitialize)
}
