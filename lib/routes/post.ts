// A POST: its body is read ahead of the endpoint, and then its messages tell who answers it.
import { respondAsync } from '../protocol/respond-async.js'
import { keyOf } from '../endpoint/idempotency.js'
import { isMcpPost } from '../endpoint/mcp-request.js'
import { readAhead } from '../endpoint/read-ahead.js'
import { passEarly } from './early.js'
import { passNotMcp } from './pass.js'
import { type Context, type Route, walk } from './route.js'

/**
 * The first of `routes` answers. Where the endpoint runs already while a body takes its time, the
 * first of `ours`, which answer in its place.
 */
export function post(ours: readonly Route[], routes: readonly Route[]): Route {
  return context => (context.method === 'POST' ? () => read(context, ours, routes) : undefined)
}

function read(context: Context, ours: readonly Route[], routes: readonly Route[]): void {
  const { req, res } = context
  // What its body is the same as, or its answer is to be in the meantime, decides whether the
  // endpoint is called at all.
  const mustWait = keyOf(context) !== undefined || respondAsync(context.prefer) !== undefined
  readAhead(req, {
    ...context.bodyLimits,
    known: (body, text) => {
      if (!isMcpPost(context, body)) return passNotMcp(context)
      // Somebody in front has answered while the body came: the endpoint need not begin.
      if (res.headersSent || res.writableEnded) return
      context.giveCookie()
      context.learn(body, text)
      walk(context, routes)
    },
    late: mustWait ? undefined : body => passEarly(context, body, ours)
  })
}
