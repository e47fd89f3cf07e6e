// A request for which the option `owner` has thrown or rejected: it is refused if it is MCP.
import { StreamError } from '../protocol/errors.js'
import { isMcpPost, streamNamesIn } from '../endpoint/mcp-request.js'
import { readAhead } from '../endpoint/read-ahead.js'
import { refuse } from '../endpoint/reply.js'
import type { KnownBody } from '../endpoint/request-body.js'
import { passNotMcp } from './pass.js'
import type { Answer, Context } from './route.js'

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
  const known = ({ body }: KnownBody): void =>
    isMcpPost(context, body) ? refuseIt() : passNotMcp(context)
  return () => readAhead(req, { ...context.bodyLimits, known })
}
