// A client that has lost its response sends its POST again, with the same `Idempotency-Key` (an
// Internet-Draft of the IETF, draft-ietf-httpapi-idempotency-key-header): the endpoint runs once,
// and the client gets the response of the first, or its stream. By its key, it can cancel a call
// before its response (`DELETE ?stream=<key>`).
import { label } from '../../protocol/event-id.js'
import { isComparable } from '../../protocol/json-bounds.js'
import { compactJson } from '../../protocol/json-text.js'
import { streamParameters } from '../../protocol/link-header.js'
import { isKnown, type Here, type KeptValue, UNKNOWN } from '../../streams/directory.js'
import { hashOf, headerOf } from '../../access/guards.js'
import { canAnswer, claim, guarded, noContent, refuse } from '../../http/reply.js'
import type { Answer, CallKeys, Feature, KeptKeyedCall } from '../../endpoint/feature.js'
import type { CallKey, KeyedOutcome, RecordedAnswer } from '../../endpoint/keyed-call.js'
import { streamNamesIn } from '../../endpoint/mcp-request.js'
import { refuseAndCount } from '../../endpoint/refusals.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { Answerer } from '../../endpoint/answerer.js'
import { followTurn } from '../../routes/resume.js'
import { cancelStream, findNamed, tellCancelled } from '../../routes/stream-url.js'
import { reportEvicted } from '../../routes/report-evicted.js'
import { IdempotencyStore, keptOutcomeIn } from './idempotency-store.js'
import type { IdempotentRequest, SettledCall } from './idempotent-request.js'

/** Shorter keys may be guessed, so they prove nothing about who sends them, and are ignored. */
const SHORTEST_KEY = 16
const LONGEST_KEY = 256

export class Idempotency extends IdempotencyStore implements Feature, CallKeys {
  /** A POST under a key; and a call that is cancelled by it. */
  readonly triggers = { headers: ['idempotency-key'], verbs: ['DELETE'] }

  /** A DELETE that names a call by its key: of an MCP client, or a known key. */
  byHead(context: RequestContext): Answer | undefined {
    const { req, method } = context
    if (method !== 'DELETE') return undefined
    const [stream] = streamNamesIn(req)
    // Nothing is looked up for a foreign page: the stream URL refuses it.
    if (stream !== undefined && context.isForeign) return undefined
    const isKey = (value: string): boolean => this.scoped(context, value) !== undefined
    const name = stream ?? streamParameters(req.url ?? '').find(isKey)
    const call = this.#callNamed(context, name)
    // A key may have the form of a stream's name; any other value is not ours.
    if (
      call.kind === 'unknown' &&
      (stream !== undefined || name === undefined || !context.hasMcpHeaders)
    )
      return undefined
    return () => {
      context.giveCookie()
      if (context.isForeign) return refuseAndCount(context, 403, 'foreign-origin')
      return this.#cancel(context, call, name)
    }
  }

  beforeEndpoint(context: RequestContext): Answer | undefined {
    if (context.req.headers['idempotency-key'] === undefined) return undefined
    const callKey = this.of(context)
    if (callKey === undefined) return undefined
    const { owner, instance } = context
    const earlier = this.callUnder(callKey.key)
    if (earlier.kind === 'unknown') {
      const requestIds = () => context.learnParsed().requestIds
      if (!instance.isClosing) context.keyedCall = this.begin({ ...callKey, owner, requestIds })
      return undefined
    }
    // It is answered here, so the endpoint's own check of the origin does not run.
    if (context.isForeign) return () => refuseAndCount(context, 403, 'foreign-origin')
    const refusal = refusalOf(context, earlier.value, callKey)
    if (refusal !== undefined) return refusal
    return async () => {
      instance.debug('POST sent again under its key: nothing runs twice')
      instance.count('repeated', undefined)
      // The time for which the answer is kept begins again, here and at all other instances.
      if (earlier.kind === 'ended') instance.directory.keySettled(callKey.key, owner)
      const outcome =
        earlier.kind === 'ended' ? earlier.value.outcome : await outcomeOf(earlier.value, context)
      return answerAs(context, outcome)
    }
  }

  // CallKeys

  scoped(context: RequestContext, key: string): string | undefined {
    if (key.length < SHORTEST_KEY || key.length > LONGEST_KEY) return undefined
    return context.scopeOf(key)
  }

  /** A client that has announced itself repeats it on our word: its key counts without a body. */
  keyOf(context: RequestContext): string | undefined {
    const key = headerOf(context.req, 'idempotency-key')
    if (key === undefined) return undefined
    const { facts, isUnread } = context
    if (isUnread ? !context.prefersStream : facts.count === 0 || facts.isTooMany) return undefined
    return context.profile.isDurable ? this.scoped(context, key) : undefined
  }

  of(context: RequestContext): CallKey | undefined {
    const key = this.keyOf(context)
    if (key === undefined) return undefined
    const json = context.isUnread ? undefined : comparableText(context)
    const hash = json && hashOf(json)
    return { key, hash, size: context.memory }
  }

  kept(context: RequestContext, callKey: CallKey, value: KeptValue): KeptKeyedCall | undefined {
    const call = keptOutcomeIn(value)
    if (call === undefined) return undefined
    const refusal = refusalOf(context, call, callKey)
    if (refusal !== undefined) return { kind: 'answer', answer: refusal }
    const { outcome } = call
    if (outcome.kind === 'stream') return outcome
    return { kind: 'answer', answer: () => repeatAnswer(context, outcome) }
  }

  #callNamed(
    context: RequestContext,
    name: string | undefined
  ): Here<IdempotentRequest, SettledCall> {
    const key = name === undefined ? undefined : this.scoped(context, name)
    return key === undefined ? UNKNOWN : this.callUnder(key)
  }

  /** Cancels a call that has no stream yet, or never gets one; else its stream. */
  async #cancel(
    context: RequestContext,
    call: Here<IdempotentRequest, SettledCall>,
    name: string | undefined
  ): Promise<void> {
    if (call.kind !== 'local') {
      const outcome = call.kind === 'ended' ? call.value.outcome : undefined
      if (outcome !== undefined && outcome.kind !== 'stream') return noContent(context.res)
      const stream = outcome && { id: outcome.streamId, start: 0 }
      const found = await findNamed(context, stream)
      return found && cancelStream(context, found)
    }
    context.instance.debug('call cancelled by DELETE before it was answered')
    const { requestIds } = call.value
    call.value.abandon()
    return tellCancelled(context, requestIds, context.session, name)
  }
}

function refusalOf(
  { res }: RequestContext,
  earlier: Pick<CallKey, 'hash'>,
  { hash }: CallKey
): Answer | undefined {
  if (earlier.hash === undefined || hash === earlier.hash) return undefined
  if (hash !== undefined) return () => refuse(res, 409, 'key-reused')
  // The next attempt may find room for its body.
  return () => refuse(res, 503, 'body-unreadable', { 'Retry-After': '1' })
}

/** A text that tells numbers apart, as JavaScript does not; `undefined`: too many parts. */
function comparableText({ body, text }: RequestContext): string | undefined {
  if (text !== undefined) return compactJson(text)
  return isComparable(body) ? JSON.stringify(body) : undefined
}

/** Waits for the outcome of the first POST, without keeping the body of this one meanwhile. */
function outcomeOf(call: IdempotentRequest, context: RequestContext): Promise<KeyedOutcome> {
  context.dropBody()
  context.req.resume()
  return new Promise(resolve => call.awaitedBy(context.res, resolve))
}

function answerAs(context: RequestContext, outcome: KeyedOutcome): unknown {
  const { res } = context
  switch (outcome.kind) {
    case 'stream':
      return attachAgain(context, outcome.streamId)
    case 'answer':
      return guarded(res, () => repeatAnswer(context, outcome))
    case 'lost':
      return guarded(res, () => refuse(res, 409, 'answer-lost'))
  }
}

async function attachAgain(context: RequestContext, streamId: string): Promise<void> {
  const { instance, res } = context
  const found = instance.table.current(await instance.directory.find('stream', streamId))
  if (!canAnswer(res)) return
  // [MCP] Not 404, which would tell the client that its session has ended.
  if (!isKnown(found)) return refuse(res, 409, 'answer-lost')
  instance.debug('stream %s: its call was sent again', label(found.value))
  if (found.value.isKept && found.value.first === 1)
    followTurn(context, found, 0, { id: streamId, start: 0 })
  else reportEvicted(context, found.value, 0)
}

const OF_FIRST_BODY = /^(?:content-length|trailer|transfer-encoding)$/i
const WITHOUT_BODY = [204, 304]

/** Gives a recorded answer again. */
function repeatAnswer(context: RequestContext, { status, headers, body }: RecordedAnswer): void {
  const { res } = context
  if (!claim(res)) return
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && !OF_FIRST_BODY.test(name)) res.setHeader(name, value)
  // Without a length, the body would end with the connection, and a cut would look like its end.
  if (status >= 200 && !WITHOUT_BODY.includes(status)) res.setHeader('Content-Length', body.length)
  res.writeHead(status)
  // All that it is given to share its bytes.
  new Answerer(context).finish({ key: body, parts: [body] })
}
