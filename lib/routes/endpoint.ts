// The endpoint answers, with its response captured where that may become a stream.
import { isInitialize, isRequest, isTooMany } from '../protocol/json-rpc.js'
import { CallRun } from '../endpoint/call-run.js'
import { EndpointRun } from '../endpoint/endpoint-run.js'
import { watchOutcome } from '../endpoint/outcome.js'
import { calls } from './calls.js'
import type { Answer, Context } from './route.js'

export function endpoint(context: Context): Answer {
  return () => ask(context)
}

function ask(context: Context): void {
  const { instance, method, messages, next } = context
  const { tasks, tokens, debug } = instance
  // What is answered in the endpoint's place goes the way that its own answer would.
  const task = tasks?.beginFor(context)
  const inItsPlace = task === undefined ? calls(context) : undefined
  const token = (task ?? inItsPlace) === undefined ? tokens?.beginFor(context) : undefined
  if (isTooMany(messages)) {
    debug('%s passed on untouched: a batch of %d', method, messages.length)
    return void (inItsPlace ?? next)()
  }
  watchOutcome(context)
  tokens?.watch(context)
  tokens?.noteAnswers(context)
  tasks?.noteAnswers(context)
  if (token !== undefined) {
    const run = new CallRun(context)
    negotiate(context)
    return token(run)
  }
  const why = task === undefined ? whyUntouched(context) : undefined
  if (why !== undefined) {
    debug('%s passed on untouched: %s', method, why)
    negotiate(context)
    return void (inItsPlace ?? next)()
  }
  const run = new EndpointRun(context)
  // Behind all that reads along, so that what is kept is what the client has been told.
  negotiate(context)
  if (task === undefined) run.run(inItsPlace)
  else task(run)
}

/** Adds to what the endpoint declares. */
export function negotiate(context: Context): void {
  const { tasks, tokens, resources } = context.instance
  tasks?.declare(context)
  tokens?.addHints(context)
  resources?.negotiate(context)
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
