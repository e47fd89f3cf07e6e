// Requests for something that another instance has: they are answered there.
import { isRequest } from '../protocol/json-rpc.js'
import type { Place } from '../streams/directory.js'
import { isRelayed } from '../endpoint/loopback.js'
import { canAnswer } from '../endpoint/reply.js'
import { namedByHead, namedByMessages } from './names.js'
import { answerLost, answerLostPost, refuseUnreachable } from './owner-gone.js'
import { readAndRelay, relayBody, relayHead } from './relay-request.js'
import type { Answer, Context, Relay, Route } from './route.js'

/** By what the head of a request names: a stream, a download, a cursor or a session. */
export const elsewhere: Route = context => {
  const relay = relayFor(context)
  // A foreign page learns nothing about streams, so nothing is looked up for it.
  if (relay === undefined || context.isForeign) return undefined
  const named = namedByHead(context)
  const place = named && context.instance.directory.where(named.kind, named.name)
  if (place === undefined) return undefined
  return place instanceof Promise
    ? place.then(known => atPlace(context, relay, known))
    : atPlace(context, relay, place)
}

/** By what a message names: a token, a task, a stream, or a call that has asked its client. */
export function elsewhereByBody(context: Context): Answer | undefined {
  const relay = relayFor(context)
  if (relay === undefined) return undefined
  const named = namedByMessages(context)
  if (named === undefined || context.isForeign) return undefined
  const place = context.instance.directory.where(named.kind, named.name)
  if (!(place instanceof Promise)) return undefined
  return async () => {
    const known = await place
    if (known.kind === 'remote') return relayBody(context, relay, known.instance)
    return answerLostPost(context, relay.link)
  }
}

/** By its `Idempotency-Key`: of all instances, only one may begin a request with that key. */
export function elsewhereByKey(
  context: Context,
  key: string
): Promise<Answer | undefined> | undefined {
  const { instance, messages, isUnread, owner, req } = context
  const { directory, isClosing, relay } = instance
  if (relay === undefined || !(isUnread || messages.some(isRequest))) return undefined
  // An instance that is closing claims no key, because others would wait for its answer.
  const place = isClosing ? directory.where('key', key) : directory.claim(key, owner)
  if (!(place instanceof Promise)) return undefined
  return place.then(known => {
    // Another instance has found that the key was claimed here, but that does not hold: keys were
    // lost, and who has the key has written it again.
    const hasLost = known.kind === 'remote' && isRelayed(req)
    return hasLost ? () => refuseUnreachable(context) : begunAt(context, relay, known)
  })
}

/** `undefined`: there is no backplane, or another instance has sent the request here. */
function relayFor({ instance, req }: Context): Relay | undefined {
  return isRelayed(req) ? undefined : instance.relay
}

function atPlace(
  context: Context,
  relay: Relay,
  place: Place
): Answer | undefined | Promise<Answer | undefined> {
  if (place.kind === 'here') return undefined
  if (place.kind === 'unreachable') return () => refuseUnreachable(context)
  if (!canAnswer(context.res)) return () => undefined
  const { kind, instance } = place
  if (kind === 'lost') return answerLost(context, relay.link, instance)
  return context.method === 'POST'
    ? () => readAndRelay(context, relay, instance)
    : () => relayHead(context, relay, instance)
}

function begunAt(context: Context, relay: Relay, place: Place): Answer | undefined {
  switch (place.kind) {
    case 'here':
      return undefined
    case 'remote':
      return () => relayBody(context, relay, place.instance)
    case 'lost':
      return () => answerLostPost(context, relay.link)
    case 'unreachable':
      return () => refuseUnreachable(context)
  }
}
