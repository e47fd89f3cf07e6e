// Requests with ids that are too long to be kept, or that are no exact numbers in JavaScript: they
// pass untouched.
import { isInexactId, isOversizedId, isTooMany, MOST_ID_LENGTH } from '../protocol/json-rpc.js'
import type { Answer, Context } from './route.js'

export function oversized(context: Context): Answer | undefined {
  const { method, messages, session } = context
  if (method !== 'GET' && method !== 'POST') return undefined
  // A batch that is too large passes untouched anyway, but its session is noted.
  if (isTooMany(messages)) return undefined
  if (!isOversizedId(session) && !messages.some(({ id }) => isOversizedId(id))) return undefined
  return passOversized(context)
}

/** A request whose id is beyond 2^53: a response could not be written with the same id. */
export function inexact(context: Context): Answer | undefined {
  const { messages } = context
  // Ids in a batch that passes anyway do not count.
  const isInexact = !isTooMany(messages) && messages.some(({ id }) => isInexactId(id))
  return isInexact ? passOversized(context) : undefined
}

function passOversized({ instance, method, next }: Context): Answer {
  return () => {
    instance.debug(
      '%s passed on untouched: a session id or request id of more than %d characters, ' +
        'or beyond 2^53',
      method,
      MOST_ID_LENGTH
    )
    next()
  }
}
