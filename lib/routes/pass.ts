// Requests that are passed on.
import type { RequestContext } from '../endpoint/request-context.js'
import { replaceHeader } from '../endpoint/request-body.js'
import type { Answer, Context } from './route.js'

/** Passes on a request that is not MCP: there may be more behind the middleware. */
export function passNotMcp({ instance, method, next }: RequestContext): void {
  instance.debug('%s passed on: not MCP', method)
  next()
}

/** Removes a cursor that the endpoint does not know from a GET, for the next routes. */
export function forgetCursor(context: Context, why: string): Answer | undefined {
  const { instance, req } = context
  instance.debug('Last-Event-ID not resumed, passed on as a plain GET: %s', why)
  replaceHeader(req, 'last-event-id', undefined)
  return context.hasMcpHeaders ? undefined : () => context.next()
}
