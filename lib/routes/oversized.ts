// A request with ids that are too long to be remembered, or that nobody can hold: it passes as if
// we were not there.
import { isInexactId, isOversizedId, isTooMany, MOST_ID_LENGTH } from '../protocol/json-rpc.js'
import type { Answer, Context } from './route.js'

export function oversized(context: Context): Answer | undefined {
  const { method, messages, session } = context
  if (method !== 'GET' && method !== 'POST') return undefined
  // A batch of that many passes anyway, and its session is heard of.
  if (isTooMany(messages)) return undefined
  if (!isOversizedId(session) && !messages.some(({ id }) => isOversizedId(id))) return undefined
  return passOversized(context)
}

/** A request with an id under which nobody can be answered: we cannot either. */
export function inexact(context: Context): Answer | undefined {
  return hasInexactId(context) ? passOversized(context) : undefined
}

/** One of a batch that passes anyway is of no concern. */
export function hasInexactId({ messages }: Context): boolean {
  return !isTooMany(messages) && messages.some(({ id }) => isInexactId(id))
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
