// A POST whose body takes its time: the endpoint runs while it comes. It may refuse it by its head,
// and reads it at its own pace.
import { isTooMany } from '../protocol/json-rpc.js'
import type { EndpointWork } from '../calls/tasks/task-calls.js'
import { CallRun } from '../endpoint/call-run.js'
import { EndpointRun } from '../endpoint/endpoint-run.js'
import { isMcpPost } from '../endpoint/mcp-request.js'
import { watchOutcome } from '../endpoint/outcome.js'
import type { LateBody } from '../endpoint/read-ahead.js'
import { canAnswer } from '../endpoint/reply.js'
import { workerFor } from './calls.js'
import { hasInexactId } from './oversized.js'
import { passNotMcp } from './pass.js'
import { negotiate, readAlong } from './read-along.js'
import { type Answer, type Context, firstAnswer, type Route, settle } from './route.js'

export function passEarly(context: Context, late: LateBody, ours: readonly Route[]): void {
  const { res } = context
  if (!isMcpPost(context, undefined) || !canAnswer(res)) {
    late.drop()
    return res.headersSent ? undefined : passNotMcp(context)
  }
  context.giveCookie()
  watchOutcome(context)
  const run = new EndpointRun(context)
  // Node does not tell by the request that its connection has gone, once it has been answered.
  res.once('close', () => {
    late.drop()
    run.learn()
  })
  const isAnswered = (): boolean => !run.isUndecided
  const isWanted = (): boolean => run.isUndecided || run.isAwaiting
  const post = new EarlyPost(context, run, late)
  const onWhole: LateBody['onWhole'] = (body, text) => settle(context, post.whole(body, text, ours))
  Object.assign(late, { isAnswered, isWanted, onWhole })
  run.runEarly()
}

class EarlyPost {
  readonly #context: Context
  readonly #run: EndpointRun
  readonly #late: LateBody

  constructor(context: Context, run: EndpointRun, late: LateBody) {
    this.#context = context
    this.#run = run
    this.#late = late
  }

  /** The body has come. */
  whole(body: unknown, text: string | undefined, ours: readonly Route[]): unknown {
    const context = this.#context
    const run = this.#run
    context.learn(body, text)
    if (!run.isUndecided) {
      run.learn()
      return this.#pass()
    }
    if (!isMcpPost(context, body)) return this.#leave()
    if (hasInexactId(context)) return this.#goOn()
    const answer = firstAnswer(context, ours)
    return answer instanceof Promise
      ? answer.then(found => this.#decided(found))
      : this.#decided(answer)
  }

  #decided(answer: Answer | undefined): unknown {
    const context = this.#context
    if (this.#run.isAnsweredEarly) return this.#goOn()
    const worker = answer === undefined ? workerFor(context) : ({ kind: 'answer', answer } as const)
    if (worker === undefined) return isTooMany(context.messages) ? this.#leave() : this.#goOn()
    if (worker.kind === 'task') return worker.begin(this.#work())
    this.#withhold()
    return worker.kind === 'answer' ? worker.answer() : worker.begin(new CallRun(context), true)
  }

  /** For a call that may become a task: the endpoint has begun, and waits for its body. */
  #work(): EndpointWork {
    const run = this.#run
    return {
      hasBegun: true,
      get isAnsweredEarly() {
        return run.isAnsweredEarly
      },
      mayGoOnAlone: onAnswered => run.mayGoOnAlone(onAnswered),
      run: () => this.#goOn(),
      goOnAlone: (interim, askedAs) => run.goOnAlone(interim, askedAs),
      withhold: () => this.#withhold()
    }
  }

  /** The endpoint works on it, and we on its answer. */
  #goOn(): void {
    readAlong(this.#context, true)
    this.#run.learn()
    negotiate(this.#context)
    this.#pass()
  }

  /** It is the endpoint's alone. */
  #leave(): void {
    this.#run.leave()
    this.#pass()
  }

  /** The endpoint does not get it: it is answered otherwise. */
  #withhold(): void {
    this.#run.leave()
    this.#late.withhold()
  }

  /** The endpoint reads on. */
  #pass(): void {
    this.#context.release()
    this.#late.pass()
  }
}
