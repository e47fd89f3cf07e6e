// Sessions that outlive their process (option `sessions`).
import { sessionOf } from '../../access/guards.js'
import { parseForeignId, withForeignIds } from '../../protocol/foreign-id.js'
import {
  isInitialize,
  isObject,
  isResponse,
  type Message,
  objectIn
} from '../../protocol/json-rpc.js'
import { FairStore } from '../../streams/fair-store.js'
import { showSession } from '../../endpoint/endpoint-client.js'
import type { Feature, FeatureCounts, LastingSessions } from '../../endpoint/feature.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import { isLoopback } from '../../http/loopback.js'
import { canAnswer, refuse } from '../../http/reply.js'
import { readAhead } from '../../http/read-ahead.js'
import { replaceBody, replaceHeader } from '../../http/request-body.js'
import { rewriteAnswer } from '../../http/rewrite-answer.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { isSealed, nameIn, Seals } from './seal.js'
import { Revivals, Session } from './revivals.js'
import { SharedMemory } from './shared-memory.js'
import { sealHead, translateHead } from './session-heads.js'

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
}

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
 */
export class SurvivingSessions implements Feature, LastingSessions {
  readonly surviving: LastingSessions = this
  readonly #parts: InstanceParts
  readonly #seals: Seals
  readonly #lifetime: number
  /** Those of which a request has come, by name. Ended ones stay: they are not begun again. */
  readonly #sessions: FairStore<Session>
  /** `undefined`: there are no other instances. */
  readonly #shared: SharedMemory | undefined
  readonly #revivals: Revivals

  /** @param most how many are remembered, and how many may wait to be begun again. */
  constructor({ secrets, lifetime }: SessionsSettings, parts: InstanceParts, most: number) {
    this.#parts = parts
    this.#seals = new Seals(secrets)
    this.#lifetime = lifetime
    this.#sessions = new FairStore({ maxSize: most })
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

  readonly #ended = (name: string): void => {
    const session = this.#sessions.peek(name)
    if (session === undefined) return
    session.state = 'ended'
    this.#shared?.noteEnded(name)
  }

  counts(): FeatureCounts {
    return { revivals: this.#revivals.revived }
  }

  // LastingSessions

  isOwn([message]: readonly Message[]): boolean {
    return message !== undefined && this.#revivals.shownIn(message) !== undefined
  }

  mayBeRevived(session: string): boolean {
    return isSealed(session)
  }

  enter(context: RequestContext): void {
    const { req, next } = context
    const id = sessionOf(req)
    const session = id === undefined ? undefined : this.#find(id, context)
    if (session !== undefined) context.session = session.name
    // What cannot be opened must not pass for the name of a session.
    else if (id !== undefined && isSealed(id)) context.session = `~${this.#parts.hash(id)}`
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
    const { req, res, messages, owner, soleRequest } = context
    const isOfClient = !isLoopback(req)
    const [message] = messages
    const shown = isOfClient || message === undefined ? undefined : this.#revivals.shownIn(message)
    if (shown !== undefined) {
      showSession(req, shown.id)
      // The first request of a session names no revision.
      if (shown.id === undefined) replaceHeader(req, 'mcp-protocol-version', undefined)
      return next()
    }
    const isBeginning = soleRequest !== undefined && isInitialize(soleRequest)
    if (isBeginning && isOfClient) {
      const { id, params } = soleRequest
      sealHead(res, id, (endpointId, result) => this.#sealed(owner, endpointId, params, result))
    }
    if (session === undefined) return next()
    if (soleRequest !== undefined) this.#shared?.noteWish(session.name, soleRequest)
    // What has changed in the session is news for its next stream, and not for a new session.
    const mayNotify = isOfClient && !isBeginning
    if (isBeginning || session.state !== 'unproved')
      return this.#pass(context, session, mayNotify, next)
    this.#revivals
      .prove(session, req, owner)
      .then(proof => {
        // Its client has left, and an endpoint would not hear of that any more.
        if (req.method === 'GET' && req.socket.destroyed) return
        if (proof !== 'full') return this.#pass(context, session, mayNotify, next)
        this.#parts.count('refused', undefined, 'full')
        refuse(res, 503, 'endpoint-failed', { 'Retry-After': '1' })
      })
      .catch((error: unknown) => (canAnswer(res) ? next(error) : res.destroy()))
  }

  #pass(context: RequestContext, session: Session, mayNotify: boolean, next: () => void): void {
    const { req, res } = context
    // An id that it has never had: the endpoint itself says that it does not know it.
    if (session.state !== 'ended') {
      this.#numberQuestions(context, session)
      showSession(req, session.endpointId)
      translateHead(res, session, mayNotify)
      return this.#numberAnswers(context, session, next)
    }
    next()
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

  #numberAnswers(
    { req, messages, isBatch, bodyLimits }: RequestContext,
    { askerId }: Session,
    next: () => void
  ): void {
    if (askerId === undefined) return next()
    const own = messages.map(message => withOwnId(message, askerId))
    if (own.every((message, i) => message === messages[i])) return next()
    const body = isBatch ? own : (own[0] as Message)
    // Of a message of ours, the bytes may still be on their way.
    const known = (): void => {
      replaceBody(req, body, JSON.stringify(body))
      next()
    }
    readAhead(req, { ...bodyLimits, known })
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
      if (parts !== undefined) return this.#keep(new Session(id, one, parts.endpointId))
    }
    return undefined
  }

  /** `undefined`: the client gets the endpoint's own id. */
  #sealed(owner: string, endpointId: string, params: unknown, result: unknown): string | undefined {
    if (!isObject(result)) return undefined
    const { protocolVersion: revision, capabilities } = result
    const expires = Date.now() + this.#lifetime
    const parts = { endpointId, expires, params: objectIn(params), revision, capabilities }
    const id = this.#seals.seal(owner, parts)
    if (id === undefined) {
      this.#parts.debug('session not sealed, its id would be too long: it ends with the process')
      return undefined
    }
    const session = this.#keep(new Session(id, owner, endpointId))
    session.state = 'known'
    // The head had the endpoint's id when it was looked at.
    this.#parts.sessions.see(owner, session.name)
    return id
  }

  #keep(session: Session): Session {
    this.#sessions.set(session.name, session.owner, session)
    return session
  }
}
