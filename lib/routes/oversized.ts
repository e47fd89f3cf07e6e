// Requests with ids that are too long to be kept, or that are no exact numbers in JavaScript: they
// pass untouched.
import { isOversizedId, MOST_ID_LENGTH } from '../protocol/json-rpc.js'
import type { Answer, Context } from './route.js'

export function oversized(context: Context): Answer | undefined {
  const { method, facts, session } = context
  if (method !== 'GET' && method !== 'POST') return undefined
  // A batch that is too large passes untouched anyway, but its session is noted.
  if (facts.isTooMany) return undefined
  return facts.isOversized || isOversizedId(session) ? passOversized(context) : undefined
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
      '%s passed on untouched: a session id, request id or progress token of more than %d ' +
        'characters, ' +
        'or beyond 2^53',
      method,
      MOST_ID_LENGTH
    )
    next()
  }
}
