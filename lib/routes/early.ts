// A POST whose body comes slowly: the endpoint runs while the body comes. It may refuse the request
// by its head, and reads the body at its own pace.
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

/** Lets the endpoint run, and decides who answers once the body is there. */
export function passEarly(context: Context, late: LateBody, ours: readonly Route[]): void {
  const { res } = context
  if (!isMcpPost(context, undefined) || !canAnswer(res)) {
    late.drop()
    return res.headersSent ? undefined : passNotMcp(context)
  }
  context.giveCookie()
  watchOutcome(context)
  const run = new EndpointRun(context)
  // Once a request has been answered, Node emits no event on it if its connection is lost.
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

  /** The body is there: the first of `ours` that has an answer gives it, or the endpoint does. */
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

  /** For a call that may become a task: the endpoint has begun, and waits for the body. */
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

  /** The endpoint gets the body, and its answer may become a stream. */
  #goOn(): void {
    readAlong(this.#context, true)
    this.#run.learn()
    negotiate(this.#context)
    this.#pass()
  }

  /** The endpoint gets the body, and its answer passes untouched. */
  #leave(): void {
    this.#run.leave()
    this.#pass()
  }

  /** The endpoint does not get the body, as the request is answered in another way. */
  #withhold(): void {
    this.#run.leave()
    this.#late.withhold()
  }

  /** Gives the endpoint the body. */
  #pass(): void {
    this.#context.release()
    this.#late.pass()
  }
}
