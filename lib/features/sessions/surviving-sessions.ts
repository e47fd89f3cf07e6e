// Sessions that outlive their process, and the endpoint's (option `sessions`).
import type { IncomingMessage } from 'node:http'
import { hashOf, headerOf } from '../../access/guards.js'
import { parseForeignId, withForeignIds } from '../../protocol/foreign-id.js'
import {
  errorResponse,
  isInitialize,
  isObject,
  isResponse,
  type Message,
  objectIn
} from '../../protocol/json-rpc.js'
import { faultError } from '../../protocol/errors.js'
import { declaresStreams } from '../../protocol/stream-messages.js'
import { DueQueue } from '../../streams/due-queue.js'
import { FairStore } from '../../streams/fair-store.js'
import { resourceStreamingIn } from '../../streams/sessions.js'
import { sendToEndpoint, showSession } from '../../endpoint/endpoint-client.js'
import type { Feature, FeatureCounts, LastingSessions } from '../../endpoint/feature.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import { endSession } from '../../endpoint/outcome.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { isAboutRequest } from '../../endpoint/session-pings.js'
import type { HeldAnswer } from '../../http/held-answer.js'
import { isLoopback, noteOf } from '../../http/loopback.js'
import { patchedResponse } from '../../http/patched-response.js'
import { answer, canAnswer, refuse } from '../../http/reply.js'
import { readAhead, replaceBody, replaceHeader } from '../../http/request-body.js'
import { rewriteAnswer } from '../../http/rewrite-answer.js'
import { IdleSessions } from './idle-sessions.js'
import { Revivals } from './revivals.js'
import { isSealed, nameIn, Seals, type SessionParts } from './seal.js'
import { answerInstead, replaceBy, Sent } from './sent.js'
import { Session, SessionNote } from './session.js'
import { sealHead, translateHead } from './session-heads.js'
import { SharedMemory } from './shared-memory.js'

/** Bytes of an event, or of an answer in JSON, in which a question of the endpoint is found. */
const LONGEST_QUESTION = 4 * 1024 * 1024

/** An answer with the id that the endpoint has asked under. */
function withOwnId(message: Message, askerId: string): Message {
  const asked = isResponse(message) ? parseForeignId(message.id) : undefined
  return asked?.originId === askerId ? { ...message, id: asked.id } : message
}

interface SessionsSettings {
  readonly secrets: readonly string[]
  readonly lifetime: number
  readonly idle: number | undefined
}

/** Seconds after which a client is to come back whose session cannot be begun again now. */
const RETRY_AFTER = { 'Retry-After': '5' }
/** Milliseconds for which the body of a request is kept that is at the endpoint. */
const BODY_KEPT = 5000

/**
 * A session has three names. Its client has the *sealed id*, which stays the same for as long as
 * the client uses the session, whatever becomes of processes. The endpoint has an id of its own,
 * another one each time that the session is begun again. In between, the session is known by the
 * beginning of its sealed id, which is random: to streams, tasks, the backplane and everything else
 * that outlives the endpoint's id. The endpoint's would not do: an endpoint that numbers its
 * sessions gives the ids of dead ones to others.
 *
 * The ids are translated at two places only, on both sides of the endpoint: in the request, just
 * before the endpoint gets it, and in the head of its answer, before anything else of ours sees it.
 * What we send to the endpoint in the client's name has the sealed id again, as guards in front
 * know no other.
 *
 * Whether the endpoint knows a session, only its answer tells: its process is not ours. A request
 * that it refuses as it does not know the session has run nothing, so it is sent once more when the
 * session has been begun again.
 */
export class SurvivingSessions implements Feature, LastingSessions {
  readonly bodies: InstanceParts['bodies']
  readonly kept = new DueQueue(BODY_KEPT)
  readonly #parts: InstanceParts
  readonly #seals: Seals
  readonly #lifetime: number
  /** Those of which a request has come, by name. Ended ones stay: they are not begun again. */
  readonly #sessions: FairStore<Session>
  /** `undefined`: there are no other instances. */
  readonly #shared: SharedMemory | undefined
  readonly #revivals: Revivals
  /** `undefined`: sessions are never idle. */
  readonly #idle: IdleSessions | undefined

  /** @param most how many are remembered, and how many may wait to be begun again. */
  constructor({ secrets, lifetime, idle }: SessionsSettings, parts: InstanceParts, most: number) {
    this.#parts = parts
    this.bodies = parts.bodies
    this.#seals = new Seals(secrets)
    this.#lifetime = lifetime
    this.#idle = idle === undefined ? undefined : new IdleSessions(parts, idle, most)
    this.#sessions = new FairStore({
      maxSize: most,
      onEvict: session => this.#idle?.evicted(session)
    })
    this.#shared = parts.kept && new SharedMemory(parts.kept, lifetime)
    this.#revivals = new Revivals(parts, this.#seals, most, this.#shared)
    const { sessions } = parts
    sessions.nameOf = this.#nameOf
    sessions.idOf = this.#idOf
    sessions.endpointIdOf = this.#endpointIdOf
    parts.sessionEnded.add(this.#ended)
  }

  readonly #nameOf = (id: string): string => this.#sessions.peek(nameIn(id))?.name ?? id

  readonly #idOf = (name: string): string | undefined =>
    this.#sessions.peek(name)?.id ?? (isSealed(name) ? undefined : name)

  readonly #endpointIdOf = (name: string): string => this.#sessions.peek(name)?.endpointId ?? name

  /** One that the endpoint does not know may be begun again with the next request. */
  readonly #ended = (name: string, _owner: string, isLost: boolean): void => {
    const session = this.#sessions.peek(name)
    if (session === undefined || session.state === 'ended') return
    session.state = isLost ? 'unproved' : 'ended'
    this.#idle?.drop(session)
    if (!isLost) this.#shared?.noteEnded(name)
  }

  counts(): FeatureCounts {
    return {
      revivals: this.#revivals.revived,
      idled: this.#idle?.ended ?? 0,
      remembered: this.#idle?.bytes ?? 0
    }
  }

  beginClosing(): void {
    this.#idle?.close()
  }

  // LastingSessions

  isOwn(req: IncomingMessage): boolean {
    return noteOf(req) instanceof SessionNote
  }

  mayBeRevived(session: string): boolean {
    return isSealed(session)
  }

  enter(context: RequestContext): void {
    const { req, next } = context
    const id = this.isOwn(req) ? undefined : headerOf(req, 'mcp-session-id')
    const session = id === undefined ? undefined : this.#find(id, context)
    if (session !== undefined) {
      context.session = session.name
      this.#idle?.used(session)
    }
    // What cannot be opened must not pass for the name of a session.
    else if (id !== undefined && isSealed(id)) context.session = `~${hashOf(id)}`
    const enter = (error?: unknown): void => {
      if (error === undefined) this.#toEndpoint(context, session, next)
      else next(error)
    }
    context.next = enter
  }

  #toEndpoint(
    context: RequestContext,
    session: Session | undefined,
    next: RequestContext['next']
  ): void {
    const { req, res, soleRequest } = context
    const note = noteOf(req)
    if (note instanceof SessionNote) {
      showSession(req, note.shown)
      // The first request of a session names no revision.
      if (note.shown === undefined) replaceHeader(req, 'mcp-protocol-version', undefined)
      return next()
    }
    const isBeginning = soleRequest !== undefined && isInitialize(soleRequest)
    if (isBeginning && !isLoopback(req)) {
      const { id, params } = soleRequest
      sealHead(res, id, (endpointId, result) => this.#sealed(context, endpointId, params, result))
    }
    if (session === undefined) return next()
    if (soleRequest !== undefined) this.#shared?.noteWish(session.name, soleRequest)
    if (isBeginning || (session.ending === undefined && session.state !== 'idle'))
      return this.#pass(context, session, next)
    this.#backFromIdle(context, session, next).catch((error: unknown) =>
      canAnswer(res) ? next(error) : res.destroy()
    )
  }

  /** Its client has come back to a session that was ended at the endpoint, or just is. */
  async #backFromIdle(
    context: RequestContext,
    session: Session,
    next: RequestContext['next']
  ): Promise<void> {
    const { req, res, method, owner } = context
    await session.ending
    if (session.state === 'idle' && method === 'DELETE') {
      endSession(this.#parts, session.name, owner, false)
      return answer(res, 204)
    }
    const outcome = session.state === 'idle' ? await this.#begin(session, context) : 'begun'
    // Its client has left, and an endpoint would not hear of that any more.
    if (method === 'GET' && req.socket.destroyed) return
    if (outcome !== 'busy') return this.#pass(context, session, next)
    this.#parts.count('refused', undefined, 'full')
    refuse(res, 503, 'endpoint-failed', RETRY_AFTER)
  }

  #pass(context: RequestContext, session: Session, next: () => void): void {
    const { req, res, soleRequest } = context
    // An id that it has never had: the endpoint itself says that it does not know it.
    if (session.state === 'ended') return next()
    const isBeginning = soleRequest !== undefined && isInitialize(soleRequest)
    this.#numberQuestions(context, session)
    showSession(req, session.endpointId)
    this.#idle?.uses(session, context)
    if (!isBeginning) patchedResponse(res).holdBy(new Sent(context, session, this))
    // What has changed in the session is news for its next stream, and not for a new session.
    translateHead(res, session, !isLoopback(req) && !isBeginning)
    this.#numberAnswers(context, session, next)
  }

  /**
   * While calls of the session still run at the instance that had it before, both number what they
   * ask its client from 0 on: what is asked here gets ids that say so.
   */
  #numberQuestions({ res }: RequestContext, session: Session): void {
    const { sessions, newId } = this.#parts
    if (!sessions.hasMoved(session.name)) return
    const askerId = (session.askerId ??= newId())
    const rewrite = (message: Message): Message | undefined => {
      const own = withForeignIds(message, askerId)
      return own === message ? undefined : own
    }
    rewriteAnswer(res, { limit: LONGEST_QUESTION, rewrite })
  }

  #numberAnswers(context: RequestContext, { askerId }: Session, next: () => void): void {
    const { req, messages, isBatch } = context
    if (askerId === undefined) return next()
    const own = messages.map(message => withOwnId(message, askerId))
    if (own.every((message, i) => message === messages[i])) return next()
    const body = isBatch ? own : (own[0] as Message)
    // Of a message of ours, the bytes may still be on their way.
    const known = (): void => {
      replaceBody(req, body, JSON.stringify(body))
      next()
    }
    readAhead(context, known)
  }

  // What becomes of a request that is at the endpoint

  accepted(session: Session): void {
    if (session.state === 'unproved') this.#learn(session)
  }

  refused(sent: Sent, held: HeldAnswer): void {
    this.#recover(sent, held)
      .catch((error: unknown) => {
        this.#parts.debug('a request was not sent again: %o', error)
        answerInstead(held, 503, RETRY_AFTER, BUSY)
      })
      .finally(() => sent.drop())
  }

  async #recover(sent: Sent, held: HeldAnswer): Promise<void> {
    const { request, session } = sent
    const { req, res, method } = request
    if (held.isUnwanted) return held.pass()
    // It is over for its client, whether the endpoint still knew it or not.
    if (method === 'DELETE') return held.status === 404 ? answerInstead(held, 204) : held.pass()
    if (sent.shown === session.endpointId && !(await this.#isLost(sent, held))) {
      this.accepted(session)
      return held.pass()
    }
    // Another request may have begun it again meanwhile.
    const outcome =
      sent.shown === session.endpointId ? await this.#begin(session, request) : 'begun'
    if (outcome === 'refused') return held.pass(404)
    if (held.isUnwanted) return held.pass()
    const { body } = sent
    if (outcome === 'busy' || (method !== 'GET' && body === undefined))
      return answerInstead(held, 503, RETRY_AFTER, BUSY)
    const gone = new AbortController()
    res.once('close', () => gone.abort())
    const note = new SessionNote(session.endpointId)
    const options = { text: body?.text, note, signal: gone.signal, isSentAgain: true }
    replaceBy(held, await sendToEndpoint(req, body?.message, options))
  }

  /** Only a 404 to a POST says so: there may be no listen channel, or the request is bad. */
  async #isLost({ request, session }: Sent, { status, text }: HeldAnswer): Promise<boolean> {
    if (isAboutRequest(text, request.facts.requestIds)) return false
    if (request.method === 'POST' && status === 404) return true
    const note = new SessionNote(session.endpointId)
    return this.#parts.sessionPings.isLost(request.req, session, note)
  }

  async #begin(session: Session, request: RequestContext): ReturnType<Revivals['begin']> {
    const outcome = await this.#revivals.begin(session, request)
    if (outcome === 'begun') {
      if (session.state === 'unproved') this.#learn(session)
      else if (session.state === 'idle') session.state = 'known'
    } else this.#parts.count('refused', undefined, outcome === 'busy' ? 'full' : 'session-ended')
    return outcome
  }

  /** What a process knows that has seen the session begin. */
  #learn(session: Session): void {
    const { name, owner, revision } = session
    const { params } = this.#seals.open(owner, session.id) as SessionParts
    const { sessions } = this.#parts
    session.state = 'known'
    sessions.see(owner, name)
    sessions.negotiated(owner, name, revision, declaresStreams({ method: 'initialize', params }))
    sessions.declare(owner, name, resourceStreamingIn(params['capabilities']))
  }

  #find(id: string, { req, owner }: RequestContext): Session | undefined {
    const known = this.#sessions.get(nameIn(id))
    if (known?.id === id && known.isOf(owner)) return known
    // Only requests of ours have the name alone: those for which there is no request of its client.
    if (known?.name === id && isLoopback(req)) return known
    if (!isSealed(id)) return undefined
    // A client may sign in after its session has begun.
    for (const one of owner === '' ? [''] : [owner, '']) {
      const parts = this.#seals.open(one, id)
      if (parts !== undefined) return this.#keep(new Session(id, one, parts))
    }
    return undefined
  }

  /** `undefined`: the client gets the endpoint's own id. */
  #sealed(
    context: RequestContext,
    endpointId: string,
    params: unknown,
    result: unknown
  ): string | undefined {
    if (!isObject(result)) return undefined
    const { owner } = context
    const { protocolVersion: revision, capabilities } = result
    const expires = Date.now() + this.#lifetime
    const parts = { endpointId, expires, params: objectIn(params), revision, capabilities }
    const id = this.#seals.seal(owner, parts)
    if (id === undefined) {
      this.#parts.debug('session not sealed, its id would be too long: it ends with the process')
      return undefined
    }
    const session = this.#keep(new Session(id, owner, parts))
    session.state = 'known'
    this.#idle?.uses(session, context)
    // The head had the endpoint's id when it was looked at.
    this.#parts.sessions.see(owner, session.name)
    return id
  }

  #keep(session: Session): Session {
    this.#sessions.set(session.name, session.owner, session)
    return session
  }
}

const BUSY = errorResponse(null, faultError('endpoint-failed'))
