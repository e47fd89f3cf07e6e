// Requests for something that another instance has: they are answered there, or here with an error
// if that instance is gone or out of reach.
import type { Message } from '../protocol/json-rpc.js'
import type { Named } from '../endpoint/feature.js'
import type { NameKind, Place } from '../streams/directory.js'
import { type RelayKind, relayedWireOf } from '../http/loopback.js'
import { answerJson, canAnswer, noContent, refuse } from '../http/reply.js'
import { isGoneId, parseEventId, parseStreamName } from '../protocol/event-id.js'
import { primerText } from '../protocol/sse-writer.js'
import { readAhead } from '../http/request-body.js'
import { debugElsewhere, refuseAndCount } from '../endpoint/refusals.js'
import type { InstanceLink } from './instance-link.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { writeEventsHead } from '../endpoint/stream-headers.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import { streamParameters } from '../protocol/link-header.js'
import { isInstanceId } from './shared-names.js'
import { type Answer, type Context, forgetCursor } from '../routes/route.js'
import { RelayedResponse, type RelayParts } from './relay-out.js'
import { answerKept, answerKeptCall, answerSaved } from './kept-answer.js'
import { goneError, OWNER_GONE, tellGone } from './tell-gone.js'

/** By what the head of a request names: a stream, a download, a cursor or a session. */
export function elsewhereByHead(
  context: Context,
  relay: RelayParts
): Answer | undefined | Promise<Answer | undefined> {
  // A foreign page learns nothing about streams, so nothing is looked up for it.
  if (context.isForeign) return undefined
  const named = namedByHead(context)
  if (named === undefined) return undefined
  const leaving = relay.handedBack.of(context)
  const place = context.instance.directory.where(named.kind, named.name, leaving)
  if (!(place instanceof Promise)) return atPlace(context, relay, named, place)
  if (named.kind !== 'session') return place.then(known => atPlace(context, relay, named, known))
  const taken = place.then(async known => {
    if (known.kind === 'here') await relay.moved.take(named.name, context.owner, leaving)
    return known
  })
  relay.moved.noteTaking(named.name, taken)
  return taken.then(known => atPlace(context, relay, named, known))
}

/** By what a message names: a token, a task, a stream, or a call that has asked its client. */
export function elsewhereByMessage(context: Context, relay: RelayParts): Answer | undefined {
  if (isNamedHere(context)) return undefined
  const named = namedByMessages(context)
  if (named === undefined || context.isForeign) return undefined
  const place = context.instance.directory.where(named.kind, named.name)
  if (!(place instanceof Promise)) return undefined
  return async () => {
    const known = await place
    if (known.kind === 'remote') return relayBody(context, relay, known.instance, 'named')
    return answerLostPost(context, relay.link)
  }
}

/** By its `Idempotency-Key`: of all instances, only one may begin a request with that key. */
export function elsewhereByKey(
  context: Context,
  relay: RelayParts
): Promise<Answer | undefined> | undefined {
  const { instance, facts, isUnread, owner } = context
  const { directory, isClosing, keys } = instance
  if (!(isUnread || facts.requestIds.length > 0)) return undefined
  const key = keys.keyOf(context)
  if (key === undefined) return undefined
  // An instance that is closing claims no key, because others would wait for its answer.
  const place = isClosing ? directory.where('key', key) : directory.claim(key, owner)
  if (!(place instanceof Promise)) return undefined
  return place.then(known => {
    // Keys were lost: who has the key has written it again.
    const hasLost = known.kind === 'remote' && isNamedHere(context)
    return hasLost ? () => refuseUnreachable(context) : begunAt(context, relay, known)
  })
}

/** Another instance has sent it here, as it knows that what it names is here. */
function isNamedHere({ req }: Context): boolean {
  return relayedWireOf(req)?.kind === 'named'
}

function atPlace(
  context: Context,
  relay: RelayParts,
  { kind: nameKind }: Named,
  place: Place
): Answer | undefined | Promise<Answer | undefined> {
  if (place.kind === 'here') return undefined
  if (place.kind === 'unreachable') return () => refuseUnreachable(context)
  if (!canAnswer(context.res)) return () => undefined
  const { kind, instance } = place
  if (kind === 'lost') return afterLost(context, relay, instance)
  // A listen channel, which that instance does not go on with.
  const isOver = nameKind !== 'session' && relay.handedBack.of(context).includes(instance)
  if (isOver && isResumed(context)) return withoutCursor(context, relay)
  const relayKind = nameKind === 'session' || isResumed(context) ? 'in-session' : 'named'
  return context.method === 'POST'
    ? () => readAndRelay(context, relay, instance, relayKind)
    : () => send(context, relay, instance, relayKind)
}

/** Whether it goes on with a stream at the URL of the endpoint. */
function isResumed({ method, req, lastEventId }: Context): boolean {
  return method === 'GET' && lastEventId !== undefined && streamNamesIn(req).length === 0
}

async function afterLost(
  context: Context,
  relay: RelayParts,
  instance: string
): Promise<Answer | undefined> {
  const answer = await answerLost(context, relay.link, instance)
  if (answer !== undefined || !isResumed(context)) return answer
  return parseEventId(context.lastEventId ?? '')?.requestId === undefined
    ? withoutCursor(context, relay)
    : undefined
}

/** The stream of its cursor is over: its session, which may be elsewhere, begins another one. */
function withoutCursor(
  context: Context,
  relay: RelayParts
): Answer | undefined | Promise<Answer | undefined> {
  forgetCursor(context, 'the instance of its listen channel leaves, or has gone')
  return elsewhereByHead(context, relay)
}

function begunAt(context: Context, relay: RelayParts, place: Place): Answer | undefined {
  switch (place.kind) {
    case 'here':
      return undefined
    case 'remote':
      return () => relayBody(context, relay, place.instance, 'named')
    case 'lost':
      return () => answerLostPost(context, relay.link)
    case 'unreachable':
      return () => refuseUnreachable(context)
  }
}

/** A request whose body, if it has one, was read. */
export function relayBody(context: Context, relay: RelayParts, tag: string, kind: RelayKind): void {
  send(context, relay, tag, kind, textOf(context))
}

/** If the other instance is lost, the body says which calls are lost with it. */
function readAndRelay(context: Context, relay: RelayParts, tag: string, kind: RelayKind): void {
  readAhead(context, (_context, body) => {
    context.learn(body)
    relayBody(context, relay, tag, kind)
  })
}

function send(
  context: Context,
  relay: RelayParts,
  tag: string,
  kind: RelayKind,
  body?: string
): void {
  const { instance, method, req, res, facts } = context
  if (!canAnswer(res)) return
  if (relay.handedBack.of(context).includes(tag)) return refuseUnreachable(context)
  const { debug, maxBodyBytes } = instance
  debugElsewhere(context, 'sent to %s', tag)
  const handedBack = (): void => {
    if (!canAnswer(res)) return
    relay.handedBack.add(context, tag)
    debugElsewhere(context, 'handed back by %s, which leaves', tag)
    if (method === 'POST' && body === undefined)
      return refuse(res, 503, 'closing', { 'Retry-After': '1' })
    relay.answerAgain(context)
  }
  const gone = (): void =>
    void goneMeanwhile(context, relay.link, tag).catch(() => {
      res.destroy()
    })
  new RelayedResponse(req, res, {
    relay,
    tag,
    kind,
    maxBodyBytes,
    debug,
    body,
    primer: primerOf(context),
    requestIds: facts.requestIds,
    gone,
    handedBack
  }).forward()
}

/** A primer with the event id that the client has sent; empty if there is none to repeat. */
function primerOf({ lastEventId = '', profile: { primer } }: Context): string {
  if (primer === 'none' || parseEventId(lastEventId) === undefined) return ''
  return primerText(primer, lastEventId, null)
}

function textOf({ text, body }: Context): string | undefined {
  return text ?? (body === undefined ? undefined : JSON.stringify(body))
}

/** Methods of a stream URL beside GET. */
const OF_STREAMS = ['HEAD', 'POST', 'DELETE']

const isByUrl = ({ req }: Context): boolean => streamNamesIn(req).length > 0

/** For something of a gone instance; `undefined`: as if it named nothing. */
async function answerLost(
  context: Context,
  link: InstanceLink,
  tag: string
): Promise<Answer | undefined> {
  const { req, res, method, lastEventId = '' } = context
  const id = idNamed(context)?.name
  if (id === undefined) return undefined
  const mayBeSaved = method === 'GET' || (OF_STREAMS.includes(method) && isByUrl(context))
  let answer: Answer | undefined
  try {
    const saved = mayBeSaved ? await link.results.find(id) : undefined
    answer = saved && answerSaved(context, saved)
  } catch {
    return comeAgain(context)
  }
  if (answer !== undefined) return answer
  if (isGoneId(lastEventId) && !res.headersSent) return () => noContent(res)
  // The other instance is alive after all: the client is to come again.
  if (!(await link.declareGone(id, tag))) return comeAgain(context)
  countGone(context)
  if (res.headersSent) return () => tellGone(req, res, [])
  if (method === 'GET' && parseEventId(lastEventId)?.requestId !== undefined)
    return () => {
      if (writeEventsHead(res)) tellGone(req, res, [])
    }
  return isByUrl(context) ? () => refuse(res, 410, OWNER_GONE) : undefined
}

/** Answers a request that had been sent to another instance, which has gone without an answer. */
async function goneMeanwhile(context: Context, link: InstanceLink, tag: string): Promise<void> {
  const { req, res, method } = context
  const answer = await answerLost(context, link, tag)
  if (answer !== undefined) return void answer()
  if (res.headersSent) return tellGone(req, res, [])
  if (method === 'POST') return answerLostPost(context, link)
  refuse(res, 410, OWNER_GONE)
}

async function answerLostPost(context: Context, link: InstanceLink): Promise<void> {
  // The endpoint's own check of the origin would not run.
  if (context.isForeign) return refuseAndCount(context, 403, 'foreign-origin')
  const named = namedByMessages(context)
  const callKey = named === undefined ? context.instance.keys.of(context) : undefined
  let answer: Answer | undefined
  try {
    answer =
      callKey === undefined
        ? named && (await answerKept(context, link, named))
        : await answerKeptCall(context, link, callKey)
  } catch {
    answer = comeAgain(context)
  }
  if (answer === undefined) tellLost(context)
  else await answer()
}

function tellLost(context: Context): void {
  const { res, facts, isBatch } = context
  countGone(context)
  const errors = facts.requestIds.map(id => goneError(id))
  if (errors.length === 0) return refuse(res, 410, OWNER_GONE)
  answerJson(res, 200, isBatch ? `[${errors.join(',')}]` : (errors[0] as string))
}

function countGone(context: Context): void {
  debugElsewhere(context, 'which has gone: %s', OWNER_GONE)
  context.instance.count('refused', undefined, OWNER_GONE)
}

/** The client is to come again: what was kept is out of reach, or nothing is lost after all. */
function comeAgain(context: Context): Answer {
  const { res } = context
  return () => void (res.headersSent ? res.end() : refuseUnreachable(context))
}

/** It is not known now which instance has it: the client is to come again (503). */
function refuseUnreachable(context: Context): void {
  const { res } = context
  debugElsewhere(context, 'out of reach: %s', 'owner-unreachable')
  refuse(res, 503, 'owner-unreachable', { 'Retry-After': '1' })
}

function idNamed({ instance, req, method, lastEventId }: Context): Named | undefined {
  const [name] = streamNamesIn(req)
  if (name !== undefined) return named('stream', parseStreamName(name)?.id)
  for (const feature of instance.features) {
    const own = feature.namedByHead?.(req).find(one => isInstanceId(one.name))
    if (own !== undefined) return own
  }
  return method === 'GET' ? named('stream', parseEventId(lastEventId ?? '')?.streamId) : undefined
}

/** Before a response has begun, a DELETE names a call by its key. */
function keyNamed(context: Context): Named | undefined {
  if (context.method !== 'DELETE') return undefined
  const { keys } = context.instance
  const values = streamParameters(context.req.url ?? '')
  return named('key', values.flatMap(value => keys.scoped(context, value) ?? [])[0])
}

/** What its head names: one of our ids, else its session. */
function namedByHead(context: Context): Named | undefined {
  const { session, hasOversizedSession } = context
  return (
    idNamed(context) ??
    keyNamed(context) ??
    named('session', hasOversizedSession ? undefined : session)
  )
}

function namedByMessages(context: Context): Named | undefined {
  return context.messages
    .map(message => namedBy(context, message))
    .find(one => one !== undefined && isInstanceId(one.name))
}

function namedBy(context: Context, message: Message): Named | undefined {
  for (const { parts, feature } of context.instance.routes.named) {
    const own = (parts & context.parts) === 0 ? undefined : feature.namedBy?.(context, message)
    if (own !== undefined) return own
  }
  return named('stream', parseForeignId(message.id)?.originId)
}

function named(kind: NameKind, name: string | undefined): Named | undefined {
  return name === undefined ? undefined : { kind, name }
}
