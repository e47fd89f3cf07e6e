// Lets the endpoint answer, and captures its response if that may become a stream; or passes what
// cannot be tracked.
import { MOST_ID_LENGTH } from '../protocol/json-rpc.js'
import { Call } from '../endpoint/call.js'
import { holdBadRequest, watchOutcome } from '../endpoint/outcome.js'
import type { Worker } from '../endpoint/feature.js'
import type { Answer, Context } from './route.js'

export function endpoint(context: Context): 'given' {
  const { instance, method, facts, next } = context
  // For calls that may become tasks, or have tokens; and for answers in the endpoint's place.
  const worker = method === 'POST' ? workerFor(context) : undefined
  const answer = worker?.kind === 'answer' ? worker.answer : undefined
  const isRun = worker?.kind === 'run'
  const why = isRun || facts.isTooMany ? undefined : whyUntouched(context)
  if (facts.isTooMany) {
    instance.debug('%s passed on untouched: a batch of %d', method, facts.count)
    ;(answer ?? next)()
  } else if (isRun || why !== undefined) {
    if (!isRun) instance.debug('%s passed on untouched: %s', method, why)
    watchOutcome(context)
    const begin = isRun ? worker.capture(instance.slow) : (answer ?? next)
    addRewriters(context)
    holdBadRequest(context)
    begin()
  } else {
    watchOutcome(context, true)
    const call = new Call(context, instance.slow)
    // What rewrites a response must not be given two heads.
    if (addRewriters(context)) holdBadRequest(context)
    call.run(answer)
  }
  return 'given'
}

/** Of the first feature that has one. */
function workerFor(context: Context): Worker | undefined {
  for (const { parts, feature } of context.instance.routes.workers) {
    const worker = (parts & context.parts) === 0 ? undefined : feature.worker?.(context)
    if (worker !== undefined) return worker
  }
  return undefined
}

/** After the response is captured, so that what the middleware adds is kept as well. */
function addRewriters(context: Context): boolean {
  let isRewritten = false
  for (const { parts, feature } of context.instance.routes.rewriters) {
    if ((parts & context.parts) === 0) continue
    feature.rewrite?.(context)
    isRewritten = true
  }
  return isRewritten
}

function whyUntouched(context: Context): string | undefined {
  const { instance, method, profile, facts } = context
  if (method !== 'GET' && method !== 'POST') return 'no stream to come'
  if (instance.isClosing) return 'closing'
  if (profile.taken || facts.isInitialize || instance.slow?.concerns(context) === true)
    return undefined
  return 'revision without resumption'
}

/**
 * Requests with ids that are too long to be kept, or that are no exact numbers in JavaScript: they
 * pass untouched.
 */
export function oversized(context: Context): Answer | undefined {
  const { method, facts, hasOversizedSession } = context
  if (method !== 'GET' && method !== 'POST') return undefined
  // A batch that is too large passes untouched anyway, but its session is noted.
  if (facts.isTooMany) return undefined
  return facts.isOversized || hasOversizedSession ? passOversized(context) : undefined
}

/** A request whose id is beyond 2^53: a response could not be written with the same id. */
export function inexact(context: Context): Answer | undefined {
  const { facts } = context
  // Ids in a batch that passes anyway do not count.
  return facts.isInexact && !facts.isTooMany ? passOversized(context) : undefined
}

function passOversized({ instance, method, next }: Context): Answer {
  return () => {
    instance.debug(
      '%s passed on untouched: a session id, request id or progress token of more than %d ' +
        'characters, ' +
        'or beyond 2^53',
      method,
      MOST_ID_LENGTH
    )
    next()
  }
}
