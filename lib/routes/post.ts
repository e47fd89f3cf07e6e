// Routes that come first: requests of our own, and POSTs, whose body is read.
import { isMcpPost, streamNamesIn } from '../endpoint/mcp-request.js'
import { type KnownBody, readAhead } from '../http/request-body.js'
import { StreamError } from '../protocol/errors.js'
import { refuse } from '../http/reply.js'
import { takeCarried } from '../http/loopback.js'
import { watchOutcome } from '../endpoint/outcome.js'
import { type Context, type Handler, passNotMcp, walk } from './route.js'

export function post({ method }: Context): Handler | undefined {
  return method === 'POST' ? read : undefined
}

function read(context: Context): void {
  readAhead(context, take)
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
export function ownerFailed({
  identity,
  method,
  hasMcpHeaders,
  req
}: Context): Handler | undefined {
  if (identity.kind !== 'failed') return undefined
  if (method !== 'POST' || hasMcpHeaders || streamNamesIn(req).length > 0) return refuseIt
  return context => {
    readAhead(context, (_context, { body }) => {
      if (isMcpPost(context.accept, body)) refuseIt(context)
      else passNotMcp(context)
    })
  }
}

function refuseIt({ instance, identity, res }: Context): void {
  const { cause } = identity as { readonly cause?: unknown }
  const error = new StreamError('owner-failed', { cause })
  instance.debug('owner failed: %O', cause)
  instance.report(error, undefined)
  refuse(res, 500, error.code)
}

/** The outcome of its message is noted, and its response passes untouched. */
export function loopback({ instance, req, isOwn }: Context): Handler | undefined {
  if (!isOwn) return undefined
  if (instance.surviving?.isOwn(req) === true) return context => context.next()
  const body = takeCarried(req)
  if (body !== undefined || req.method === 'GET') return context => passOwn(context, { body })
  return context => readAhead(context, passOwn)
}

function passOwn(context: Context, body: KnownBody): void {
  context.learn(body)
  watchOutcome(context)
  context.next()
}
