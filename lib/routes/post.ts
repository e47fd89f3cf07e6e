// A POST: its body is read before the endpoint gets it, and its messages tell who answers.
import { isMcpPost } from '../endpoint/mcp-request.js'
import { readAhead } from '../endpoint/read-ahead.js'
import type { KnownBody } from '../endpoint/request-body.js'
import { passNotMcp } from './pass.js'
import { type Context, type Route, walk } from './route.js'

/** The first of `routes` that has an answer gives it. */
export function post(routes: readonly Route[]): Route {
  return context => (context.method === 'POST' ? () => read(context, routes) : undefined)
}

function read(context: Context, routes: readonly Route[]): void {
  const { req, res } = context
  const known = (body: KnownBody): void => {
    if (!isMcpPost(context, body.body)) return passNotMcp(context)
    // Middleware in front has answered meanwhile, so the endpoint need not run.
    if (res.headersSent || res.writableEnded) return
    context.giveCookie()
    context.learn(body)
    walk(context, routes)
  }
  readAhead(req, { ...context.bodyLimits, known })
}
