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
import { calls } from './calls.js'
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
  late.isAnswered = () => !run.isUndecided
  late.isWanted = () => run.isUndecided || run.isAwaiting
  late.onWhole = (body, text) => settle(context, whole(context, run, late, ours, [body, text]))
  run.runEarly()
}

/** The body has come: `pass` or `withhold` lets its reader go on, or not. */
function whole(
  context: Context,
  run: EndpointRun,
  late: LateBody,
  ours: readonly Route[],
  [body, text]: readonly [body: unknown, text: string | undefined]
): unknown {
  const pass = (): void => {
    context.release()
    late.pass()
  }
  context.learn(body, text)
  if (!run.isUndecided) {
    run.learn()
    return pass()
  }
  if (!isMcpPost(context, body)) {
    run.leave()
    return pass()
  }
  const withhold = (): void => {
    run.leave()
    late.withhold()
  }
  const goOn = (): void => {
    learn(context, run)
    pass()
  }
  const decided = (answer: Answer | undefined): unknown => {
    if (run.isAnsweredEarly) return goOn()
    if (answer !== undefined) {
      withhold()
      return answer()
    }
    if (isTooMany(context.messages)) {
      run.leave()
      return pass()
    }
    const { tasks, tokens } = context.instance
    const task = tasks?.beginFor(context)
    if (task !== undefined) return task(whenKnown(run, goOn, withhold))
    const token = hasInexactId(context) ? undefined : tokens?.beginFor(context)
    if (token === undefined) return goOn()
    withhold()
    return token(new CallRun(context), true)
  }
  const answer = hasInexactId(context) ? undefined : firstAnswer(context, [...ours, calls])
  return answer instanceof Promise ? answer.then(decided) : decided(answer)
}

/** The same for a call that may become a task: the endpoint has begun, and waits for its body. */
function whenKnown(run: EndpointRun, goOn: () => void, withhold: () => void): EndpointWork {
  return {
    get isAnsweredEarly() {
      return run.isAnsweredEarly
    },
    mayGoOnAlone: onAnswered => run.mayGoOnAlone(onAnswered),
    run: goOn,
    goOnAlone: (interim, askedAs) => run.goOnAlone(interim, askedAs),
    withhold
  }
}

function learn(context: Context, run: EndpointRun): void {
  readAlong(context, true)
  run.learn()
  negotiate(context)
}
