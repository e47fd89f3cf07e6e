// Requests with ids that are too long to be kept, or that are no exact numbers in JavaScript: they
// pass untouched.
import { metaOf } from '../protocol/envelope.js'
import {
  isInexactId,
  isOversizedId,
  isTooMany,
  type Message,
  MOST_ID_LENGTH,
  paramsOf
} from '../protocol/json-rpc.js'
import type { Answer, Context } from './route.js'

export function oversized(context: Context): Answer | undefined {
  const { method, messages, session } = context
  if (method !== 'GET' && method !== 'POST') return undefined
  // A batch that is too large passes untouched anyway, but its session is noted.
  if (isTooMany(messages)) return undefined
  const isOversized = isOversizedId(session) || messages.some(hasOversizedId)
  return isOversized ? passOversized(context) : undefined
}

function hasOversizedId(message: Message): boolean {
  const { progressToken } = metaOf(paramsOf(message))
  return (
    isOversizedId(message.id) || (typeof progressToken === 'string' && isOversizedId(progressToken))
  )
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
      '%s passed on untouched: a session id, request id or progress token of more than %d ' +
        'characters, ' +
        'or beyond 2^53',
      method,
      MOST_ID_LENGTH
    )
    next()
  }
}
