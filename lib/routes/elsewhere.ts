// What another instance has: the request is answered there.
import { isRequest, isTooMany } from '../protocol/json-rpc.js'
import { digestOf, keyOf } from '../endpoint/idempotency.js'
import { isRelayed } from '../endpoint/loopback.js'
import type { Answer, Context, Route } from './route.js'

/** By what the head names: a stream, a download, a cursor, a session. */
export const elsewhere: Route = context => othersOf(context)?.byHead(context)

/** By what a message names: a token, a stream, a call that has asked its client. */
export function elsewhereByBody(context: Context): Answer | undefined {
  return othersOf(context)?.byBody(context)
}

/** By the key under which a request may have begun elsewhere. */
export const elsewhereByKey: Route = context => {
  const { body, messages } = context
  const others = othersOf(context)
  if (others === undefined || !messages.some(isRequest) || isTooMany(messages)) return undefined
  if (!context.profile.taken) return undefined
  const key = keyOf(context)
  return key === undefined || digestOf(body, context.text) === undefined
    ? undefined
    : others.byKey(context, key)
}

/** What another instance has sent here is answered here. */
function othersOf({ instance, req }: Context): Context['instance']['others'] {
  return isRelayed(req) ? undefined : instance.others
}
