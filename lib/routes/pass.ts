// Requests that are for those behind us.
import type { RequestContext } from '../endpoint/request-context.js'
import { endpoint } from './endpoint.js'
import type { Answer, Context } from './route.js'

/** The middleware may stand in front of more than an MCP endpoint. */
export function passNotMcp({ instance, method, next }: RequestContext): void {
  instance.debug('%s passed on: not MCP', method)
  next()
}

/**
 * Lets the endpoint answer a GET whose cursor means nothing to it. The SDK's adapters rebuild
 * headers from `rawHeaders`, so it must go from both.
 */
export function passAfresh(context: Context, why: string): Answer {
  return () => {
    const { instance, req } = context
    instance.debug('Last-Event-ID not resumed, passed on as a plain GET: %s', why)
    delete req.headers['last-event-id']
    const kept: string[] = []
    for (let i = 0; i + 1 < req.rawHeaders.length; i += 2) {
      if (req.rawHeaders[i]?.toLowerCase() !== 'last-event-id')
        kept.push(req.rawHeaders[i] as string, req.rawHeaders[i + 1] as string)
    }
    req.rawHeaders = kept
    return context.hasMcpHeaders ? endpoint(context)() : context.next()
  }
}
