// Routes that come first: requests of our own, and POSTs, whose body is read.
import { isMcpPost, streamNamesIn } from '../endpoint/mcp-request.js'
import { type KnownBody, readAhead } from '../http/request-body.js'
import { StreamError } from '../protocol/errors.js'
import { refuse } from '../http/reply.js'
import { takeCarried } from '../http/loopback.js'
import { watchOutcome } from '../endpoint/outcome.js'
import { type Answer, type Context, passNotMcp, walk } from './route.js'

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
