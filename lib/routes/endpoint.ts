// The endpoint answers, with its response captured where that may become a stream.
import { isInitialize, isRequest, isTooMany } from '../protocol/json-rpc.js'
import { CallRun } from '../endpoint/call-run.js'
import { EndpointRun } from '../endpoint/endpoint-run.js'
import { calls } from './calls.js'
import { negotiate, readAlong } from './read-along.js'
import type { Answer, Context } from './route.js'

export function endpoint(context: Context): Answer {
  return () => ask(context)
}

function ask(context: Context): void {
  const { instance, method, messages, next } = context
  const { tasks, tokens } = instance
  // What is answered in the endpoint's place goes the way that its own answer would.
  const task = tasks?.beginFor(context)
  const inItsPlace = task === undefined ? calls(context) : undefined
  const token = (task ?? inItsPlace) === undefined ? tokens?.beginFor(context) : undefined
  if (isTooMany(messages)) {
    instance.debug('%s passed on untouched: a batch of %d', method, messages.length)
    return void (inItsPlace ?? next)()
  }
  readAlong(context)
  const begin =
    token === undefined
      ? runFor(context, task, inItsPlace)
      : token.bind(undefined, new CallRun(context))
  // Behind all that reads along, so that what is kept is what the client has been told.
  negotiate(context)
  begin()
}

/** The endpoint runs, or what answers in its place; captured, where that may become a stream. */
function runFor(
  context: Context,
  task: ((run: EndpointRun) => unknown) | undefined,
  inItsPlace: Answer | undefined
): Answer {
  const why = task === undefined ? whyUntouched(context) : undefined
  if (why !== undefined) {
    context.instance.debug('%s passed on untouched: %s', context.method, why)
    return inItsPlace ?? (() => context.next())
  }
  const run = new EndpointRun(context)
  return () => (task === undefined ? run.run(inItsPlace) : task(run))
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
