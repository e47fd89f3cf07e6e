// What the core itself does with a request. The body of a POST is read, then the endpoint answers;
// its response is captured if that may become a stream. What cannot be tracked passes.
import { MOST_ID_LENGTH } from '../protocol/json-rpc.js'
import { StreamError } from '../protocol/errors.js'
import { Call } from '../endpoint/call.js'
import { isMcpPost, streamNamesIn } from '../endpoint/mcp-request.js'
import { holdBadRequest, watchOutcome } from '../endpoint/outcome.js'
import type { Worker } from '../endpoint/feature.js'
import { takeCarried } from '../http/loopback.js'
import { refuse } from '../http/reply.js'
import { type KnownBody, readAhead } from '../http/request-body.js'
import { type Answer, type Context, passNotMcp, walk } from './route.js'

/** By its messages, once they are here. */
export function post(context: Context): 'given' | undefined {
  if (context.method !== 'POST') return undefined
  readAhead(context, take)
  return 'given'
}

function take(context: Context, body: KnownBody): void {
  const { instance, res } = context
  if (!context.hasMcpHeaders && !isMcpPost(context.accept, body.body)) return passNotMcp(context)
  // Middleware in front has answered meanwhile, so the endpoint need not run.
  if (res.headersSent || res.writableEnded) return
  if (instance.cookie !== undefined) context.giveCookie()
  context.learn(body)
  walk(context, instance.routes.byMessages)
}

export function endpoint(context: Context): 'given' {
  const { instance, method, facts, next } = context
  // For calls that may become tasks, or have tokens; and for answers in the endpoint's place.
  const worker = method === 'POST' ? workerFor(context) : undefined
  if (worker?.kind === 'reply') {
    worker.answer()
    return 'given'
  }
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
  const { instance, method, profile, facts, isLate } = context
  if (method !== 'GET' && method !== 'POST') return 'no stream to come'
  if (isLate) return 'closing'
  if (profile.isDurable || facts.isInitialize || instance.slow.concerns(context)) return undefined
  return 'revision without resumption'
}

/** A request for which the option `owner` has thrown or rejected: it is refused if it is MCP. */
export function ownerFailed(context: Context): Answer | undefined {
  const { instance, identity, req, res } = context
  if (identity.kind !== 'failed') return undefined
  const { cause } = identity
  const refuseIt = (): void => {
    const error = new StreamError('owner-failed', { cause })
    instance.debug('owner failed: %O', cause)
    instance.report(error, undefined)
    refuse(res, 500, error.code)
  }
  if (context.method !== 'POST' || context.hasMcpHeaders || streamNamesIn(req).length > 0)
    return refuseIt
  const known = (_context: Context, { body }: KnownBody): void =>
    isMcpPost(context.accept, body) ? refuseIt() : passNotMcp(context)
  return () => readAhead(context, known)
}

/** The outcome of its message is noted, and its response passes untouched. */
export function loopback(context: Context): Answer | undefined {
  const { instance, req, isOwn } = context
  if (!isOwn) return undefined
  if (instance.surviving?.isOwn(req) === true) return () => context.next()
  const body = takeCarried(req)
  if (body !== undefined || req.method === 'GET') return () => passOwn(context, { body })
  return () => readAhead(context, passOwn)
}

function passOwn(context: Context, body: KnownBody): void {
  context.learn(body)
  watchOutcome(context)
  context.next()
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
      '%s passed on untouched: a session id or request id of more than %d characters, ' +
        'or beyond 2^53',
      method,
      MOST_ID_LENGTH
    )
    next()
  }
}
