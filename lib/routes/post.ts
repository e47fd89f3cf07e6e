// A POST: its body is read before the endpoint gets it, and its messages tell who answers.
import { respondAsync } from '../protocol/respond-async.js'
import { keyOf } from '../endpoint/idempotency.js'
import { isMcpPost } from '../endpoint/mcp-request.js'
import { readAhead } from '../endpoint/read-ahead.js'
import { passEarly } from './early.js'
import { passNotMcp } from './pass.js'
import { type Context, type Route, walk } from './route.js'

/**
 * The first of `routes` that has an answer gives it. If the body comes slowly, so that the endpoint
 * runs already, the first of `ours` does, which answer in the endpoint's place.
 */
export function post(ours: readonly Route[], routes: readonly Route[]): Route {
  return context => (context.method === 'POST' ? () => read(context, ours, routes) : undefined)
}

function read(context: Context, ours: readonly Route[], routes: readonly Route[]): void {
  const { req, res } = context
  // With `Idempotency-Key` or `Prefer: respond-async`, the endpoint must not run before the body is
  // known: it may not be called at all.
  const mustWait = keyOf(context) !== undefined || respondAsync(context.prefer) !== undefined
  readAhead(req, {
    ...context.bodyLimits,
    known: (body, text) => {
      if (!isMcpPost(context, body)) return passNotMcp(context)
      // Middleware in front has answered meanwhile, so the endpoint need not run.
      if (res.headersSent || res.writableEnded) return
      context.giveCookie()
      context.learn(body, text)
      walk(context, routes)
    },
    late: mustWait ? undefined : body => passEarly(context, body, ours)
  })
}
