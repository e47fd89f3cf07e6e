// Lets the endpoint answer, and captures its response if that may become a stream.
import { CollectedRun } from '../endpoint/collected-run.js'
import { StreamedRun } from '../endpoint/streamed-run.js'
import type { BeginCall } from '../calls/resume-tokens.js'
import type { EndpointWork } from '../tasks/task-calls.js'
import { watchOutcome } from '../endpoint/outcome.js'
import type { Answer, Context } from './route.js'

/** What works on a POST beside the endpoint. */
type Worker =
  /** The endpoint, on a call that may become a task. */
  | { readonly kind: 'task'; readonly begin: (work: EndpointWork) => unknown }
  /** The endpoint, on a call with resume tokens; or a request that waits for such a call. */
  | { readonly kind: 'token'; readonly begin: BeginCall }
  /** An answer in the endpoint's place, over a response that is captured like the endpoint's. */
  | { readonly kind: 'answer'; readonly answer: Answer }

export function endpoint(context: Context): Answer {
  return () => workOn(context)
}

function workOn(context: Context, worker?: Worker): void {
  const { instance, method, facts, next } = context
  if (facts.isTooMany) {
    instance.debug('%s passed on untouched: a batch of %d', method, facts.count)
    return void (worker?.kind === 'answer' ? worker.answer : next)()
  }
  watchOutcome(context)
  const begin = beginFor(context, worker)
  // After the response is captured, so that what is kept has these changes as well.
  negotiate(context)
  begin()
}

function beginFor(context: Context, worker: Worker | undefined): Answer {
  if (worker?.kind === 'token') return worker.begin.bind(undefined, new CollectedRun(context))
  if (worker?.kind === 'task') return worker.begin.bind(undefined, new StreamedRun(context))
  const why = whyUntouched(context)
  if (why === undefined) {
    const run = new StreamedRun(context)
    return () => run.run(worker?.answer)
  }
  context.instance.debug('%s passed on untouched: %s', context.method, why)
  return worker?.answer ?? (() => context.next())
}

function whyUntouched(context: Context): string | undefined {
  const { instance, method, profile, facts } = context
  if (method !== 'GET' && method !== 'POST') return 'no stream to come'
  if (instance.isClosing) return 'closing'
  if (profile.taken || facts.isInitialize || mayBeSlow(context)) return undefined
  return 'revision without resumption'
}

/** Whether the client may get something before a slow answer, even without resumption. */
function mayBeSlow(context: Context): boolean {
  const { instance, facts } = context
  return facts.requestIds.length > 0 && instance.slow.queueFor(context) !== undefined
}

/** Calls that may become tasks, or have tokens; and answers in the endpoint's place. */
export function calls(context: Context): Answer | undefined {
  const worker = workerFor(context)
  return worker && (() => workOn(context, worker))
}

/** What works on a request beside the endpoint; `undefined`: nothing does. */
function workerFor(context: Context): Worker | undefined {
  const { tasks, tokens } = context.instance
  const task = tasks?.beginFor(context)
  if (task !== undefined) return { kind: 'task', begin: task }
  const answer = tasks?.answerFor(context) ?? tokens?.answerFor(context)
  if (answer !== undefined) return { kind: 'answer', answer }
  const token = tokens?.beginFor(context)
  return token && { kind: 'token', begin: token }
}

/** Adds to the endpoint's answer what the middleware can do. */
function negotiate(context: Context): void {
  const { tasks, tokens, resources } = context.instance
  tasks?.declare(context)
  tokens?.addHints(context)
  resources?.negotiate(context)
}
