// The endpoint answers, with its response captured where that may become a stream.
import { isInitialize, isRequest, isTooMany } from '../protocol/json-rpc.js'
import { CallRun } from '../endpoint/call-run.js'
import { EndpointRun } from '../endpoint/endpoint-run.js'
import type { BeginCall } from '../calls/resume-tokens.js'
import type { EndpointWork } from '../calls/tasks/task-calls.js'
import { negotiate, readAlong } from './read-along.js'
import type { Answer, Context } from './route.js'

/** Who works on what a POST asks for, where that is not the endpoint alone. */
export type Worker =
  /** The endpoint, on a call that may become a task. */
  | { readonly kind: 'task'; readonly begin: (work: EndpointWork) => unknown }
  /** The endpoint, on a call that its client collects with resume tokens; or what comes of one. */
  | { readonly kind: 'token'; readonly begin: BeginCall }
  /** What answers in the endpoint's place, over a response that is captured like its own. */
  | { readonly kind: 'answer'; readonly answer: Answer }

export function endpoint(context: Context): Answer {
  return () => workOn(context)
}

export function workOn(context: Context, worker?: Worker): void {
  const { instance, method, messages, next } = context
  if (isTooMany(messages)) {
    instance.debug('%s passed on untouched: a batch of %d', method, messages.length)
    return void (worker?.kind === 'answer' ? worker.answer : next)()
  }
  readAlong(context)
  const begin = beginFor(context, worker)
  // Behind all that reads along, so that what is kept is what the client has been told.
  negotiate(context)
  begin()
}

function beginFor(context: Context, worker: Worker | undefined): Answer {
  if (worker?.kind === 'token') return worker.begin.bind(undefined, new CallRun(context))
  if (worker?.kind === 'task') return worker.begin.bind(undefined, new EndpointRun(context))
  const why = whyUntouched(context)
  if (why === undefined) {
    const run = new EndpointRun(context)
    return () => run.run(worker?.answer)
  }
  context.instance.debug('%s passed on untouched: %s', context.method, why)
  return worker?.answer ?? (() => context.next())
}

function whyUntouched(context: Context): string | undefined {
  const { instance, method, profile, messages } = context
  if (method !== 'GET' && method !== 'POST') return 'no stream to come'
  if (instance.isClosing) return 'closing'
  if (profile.taken || messages.some(isInitialize) || mayBeSlow(context)) return undefined
  return 'revision without resumption'
}

/** Whether its client may get something in the meantime, whatever it can be given in the end. */
function mayBeSlow(context: Context): boolean {
  const { instance, messages } = context
  return messages.some(isRequest) && instance.slow.queueFor(context) !== undefined
}
