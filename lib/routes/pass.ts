// Requests that are for those behind us.
import type { RequestContext } from '../endpoint/request-context.js'
import { replaceHeader } from '../endpoint/request-body.js'
import type { Answer, Context } from './route.js'

/** The middleware may stand in front of more than an MCP endpoint. */
export function passNotMcp({ instance, method, next }: RequestContext): void {
  instance.debug('%s passed on: not MCP', method)
  next()
}

/** Makes a GET whose cursor means nothing to the endpoint a plain one, for the next routes. */
export function forgetCursor(context: Context, why: string): Answer | undefined {
  const { instance, req } = context
  instance.debug('Last-Event-ID not resumed, passed on as a plain GET: %s', why)
  replaceHeader(req, 'last-event-id', undefined)
  return context.hasMcpHeaders ? undefined : () => context.next()
}
