// Lets the endpoint answer, and captures its response if that may become a stream.
import { StreamedRun } from '../endpoint/streamed-run.js'
import { watchOutcome } from '../endpoint/outcome.js'
import type { Worker } from '../endpoint/feature.js'
import { workerFor } from './features.js'
import type { Answer, Context } from './route.js'

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
  const { slow } = context.instance
  if (worker?.kind === 'run') return worker.capture(slow)
  const why = whyUntouched(context)
  if (why === undefined) {
    const run = new StreamedRun(context, slow)
    return () => run.run(worker?.answer)
  }
  context.instance.debug('%s passed on untouched: %s', context.method, why)
  return worker?.answer ?? (() => context.next())
}

function whyUntouched(context: Context): string | undefined {
  const { instance, method, profile, facts } = context
  if (method !== 'GET' && method !== 'POST') return 'no stream to come'
  if (instance.isClosing) return 'closing'
  if (profile.taken || facts.isInitialize || instance.slow?.concerns(context) === true)
    return undefined
  return 'revision without resumption'
}

/** Calls that may become tasks, or have tokens; and answers in the endpoint's place. */
export function calls(context: Context): Answer | undefined {
  const worker = workerFor(context)
  return worker && (() => workOn(context, worker))
}

/** Adds to the endpoint's answer what the middleware can do. */
function negotiate(context: Context): void {
  for (const feature of context.instance.features) feature.rewrite?.(context)
}
