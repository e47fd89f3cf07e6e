// The endpoint answers, with its response captured where that may become a stream.
import { isInitialize, isRequest, isTooMany } from '../protocol/json-rpc.js'
import { CallRun } from '../endpoint/call-run.js'
import { EndpointRun } from '../endpoint/endpoint-run.js'
import { type Worker, workerFor } from './calls.js'
import { negotiate, readAlong } from './read-along.js'
import type { Answer, Context } from './route.js'

export function endpoint(context: Context): Answer {
  return () => ask(context)
}

function ask(context: Context): void {
  const { instance, method, messages, next } = context
  const worker = workerFor(context)
  if (isTooMany(messages)) {
    instance.debug('%s passed on untouched: a batch of %d', method, messages.length)
    const inItsPlace = worker.kind === 'endpoint' ? worker.inItsPlace : undefined
    return void (inItsPlace ?? next)()
  }
  readAlong(context)
  const begin = beginFor(context, worker)
  // Behind all that reads along, so that what is kept is what the client has been told.
  negotiate(context)
  begin()
}

/** What is answered in the endpoint's place goes the way that its own answer would. */
function beginFor(context: Context, worker: Worker): Answer {
  if (worker.kind === 'token') return worker.begin.bind(undefined, new CallRun(context))
  if (worker.kind === 'task') return worker.begin.bind(undefined, new EndpointRun(context))
  const { inItsPlace } = worker
  const why = whyUntouched(context)
  if (why === undefined) {
    const run = new EndpointRun(context)
    return () => run.run(inItsPlace)
  }
  context.instance.debug('%s passed on untouched: %s', context.method, why)
  return inItsPlace ?? (() => context.next())
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
