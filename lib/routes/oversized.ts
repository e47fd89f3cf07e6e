// A request with ids that are too long to be remembered, or that nobody can hold: it passes as if
// we were not there.
import { isOversizedId, isTooMany, MOST_ID_LENGTH } from '../protocol/json-rpc.js'
import type { Answer, Context } from './route.js'

export function oversized(context: Context): Answer | undefined {
  const { instance, method, next } = context
  if (method !== 'GET' && method !== 'POST') return undefined
  if (!hasOversizedId(context)) return undefined
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

/** Whether nothing of it may be answered here: not under its own ids. */
export function hasOversizedId({ messages, session }: Context): boolean {
  // A batch of that many passes anyway, and its session is heard of.
  if (isTooMany(messages)) return false
  return isOversizedId(session) || messages.some(({ id }) => isOversizedId(id))
}
