// Requests for something that another instance has: they are answered there, or here with an error
// if that instance is gone or out of reach.
import type { Message } from '../protocol/json-rpc.js'
import type { Named } from '../endpoint/feature.js'
import type { NameKind, Place } from '../streams/directory.js'
import { isRelayed } from '../http/loopback.js'
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
import type { Answer, Context } from '../routes/route.js'
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
  const place = named && context.instance.directory.where(named.kind, named.name)
  if (place === undefined) return undefined
  return place instanceof Promise
    ? place.then(known => atPlace(context, relay, known))
    : atPlace(context, relay, place)
}

/** By what a message names: a token, a task, a stream, or a call that has asked its client. */
export function elsewhereByMessage(context: Context, relay: RelayParts): Answer | undefined {
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
  relay: RelayParts
): Promise<Answer | undefined> | undefined {
  const { instance, facts, isUnread, owner, req } = context
  const { directory, isClosing, keys } = instance
  if (!(isUnread || facts.requestIds.length > 0)) return undefined
  const key = keys?.keyOf(context)
  if (key === undefined) return undefined
  // An instance that is closing claims no key, because others would wait for its answer.
  const place = isClosing ? directory.where('key', key) : directory.claim(key, owner)
  if (!(place instanceof Promise)) return undefined
  return place.then(known => {
    // Keys were lost: who has the key has written it again.
    const hasLost = known.kind === 'remote' && isRelayed(req)
    return hasLost ? () => refuseUnreachable(context) : begunAt(context, relay, known)
  })
}

function atPlace(
  context: Context,
  relay: RelayParts,
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

function begunAt(context: Context, relay: RelayParts, place: Place): Answer | undefined {
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

/** Forwards a request whose body, if it has one, was not read. */
function relayHead(context: Context, relay: RelayParts, tag: string): void {
  send(context, relay, tag, undefined)
}

function relayBody(context: Context, relay: RelayParts, tag: string): void {
  send(context, relay, tag, textOf(context))
}

/** If the other instance is lost, the body says which calls are lost with it. */
function readAndRelay(context: Context, relay: RelayParts, tag: string): void {
  readAhead(context, (_context, body) => {
    context.learn(body)
    send(context, relay, tag, textOf(context))
  })
}

function send(context: Context, relay: RelayParts, tag: string, body: string | undefined): void {
  const { instance, req, res, facts } = context
  if (!canAnswer(res)) return
  const { debug, maxBodyBytes } = instance
  debugElsewhere(context, 'sent to %s', tag)
  const gone = (): void =>
    void goneMeanwhile(context, relay.link, tag).catch(() => {
      res.destroy()
    })
  new RelayedResponse(req, res, {
    relay,
    tag,
    maxBodyBytes,
    debug,
    body,
    primer: primerOf(context),
    requestIds: facts.requestIds,
    gone
  }).begin()
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
  const keyed = named === undefined ? context.instance.keys?.of(context) : undefined
  let answer: Answer | undefined
  try {
    answer =
      keyed === undefined
        ? named && (await answerKept(context, link, named))
        : await answerKeptCall(context, link, keyed)
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
  return named('key', values.flatMap(value => keys?.scoped(context, value) ?? [])[0])
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
