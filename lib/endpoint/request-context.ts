// What a request says about itself: read once, and used by everything that is done for the request.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { CLIENT_INFO } from '../protocol/envelope.js'
import {
  cancelledRequest,
  isObject,
  isOversizedId,
  isRequest,
  isRequestId,
  isResponse,
  type Message,
  messagesOf,
  MOST_ID_LENGTH,
  MOST_MESSAGES,
  objectIn,
  type RequestId,
  type RequestMessage
} from '../protocol/json-rpc.js'
import { prefersStream } from '../protocol/prefer.js'
import {
  type ClientProfile,
  declaring,
  parseRevision,
  type Primer,
  profileFor
} from '../protocol/revisions.js'
import { declaresStreams, type ResumeInterval } from '../protocol/stream-messages.js'
import { acceptsEvents } from '../protocol/media-types.js'
import { hashOf, isForeignOrigin, pathOf } from '../access/guards.js'
import { LOOPBACK } from '../http/loopback.js'
import { NOTHING_KNOWN, type SessionFacts } from '../streams/sessions.js'
import type { InstanceParts } from './instance-parts.js'
import type { KeyedCall } from './keyed-call.js'
import { isJsonRpc } from './mcp-request.js'
import { type Parts, TriggerTable } from './triggers.js'
import { isParsed, type KnownBody, memoryOfRequest, parsedBody } from '../http/request-body.js'
import type { Capture } from '../http/capture-types.js'
import type { ResponseCapture } from '../http/response-capture.js'

export type Next = (error?: unknown) => void

/** Who a request is from. */
export type Identity =
  /** Named by the application. */
  | { readonly kind: 'owner'; readonly owner: string }
  /** Named by nothing but our cookie, which a browser adds by itself. */
  | { readonly kind: 'cookie'; readonly owner: string }
  /** Unknown. */
  | { readonly kind: 'none'; readonly owner: '' }
  /** The application could not tell. */
  | { readonly kind: 'failed'; readonly owner: ''; readonly cause: unknown }

/** What a stream is opened with, as far as its next connections need to know. */
interface Opened {
  readonly owner: string
  readonly profile?: ClientProfile
}

/** Names in `initialize` of the official SDKs and of the large hosts. */
const KNOWN_CLIENTS = new RegExp(
  '^(?:mcp|mcp-inspector|inspector-client|claude-ai|claude-code|visual studio code.*|' +
    'cursor-vscode|codex-mcp-client|gemini-cli-mcp-client|goose)$',
  'i'
)

const NO_IDS: readonly RequestId[] = []
/** Messages that a debug line names. */
const MOST_NAMED = 3
/** Characters of a method, or of the name of a tool or a resource, that are kept. */
const LONGEST_NAME = 128

/**
 * What the messages of a request say: read in one pass, and all that is kept of them while the
 * endpoint works.
 */
export class RequestFacts {
  /** How many messages there are; 0: the body is not known, or there is none. */
  readonly count: number
  /** It is a batch that is too large to be tracked: it passes to the endpoint untouched. */
  readonly isTooMany: boolean
  /** To whom its messages are special. */
  parts: Parts = 0
  /** Ids of its requests, in order. */
  requestIds = NO_IDS
  /** Ids of the requests that its responses answer. */
  answered = NO_IDS
  /** Ids of the requests that its notifications cancel. */
  cancelled = NO_IDS
  /** Progress tokens of its requests, but for those that are too long to be kept. */
  progressTokens = NO_IDS
  /** `initialize` is among them, and `server/discover`. */
  isInitialize = false
  isDiscovery = false
  /** It declares the Streams draft; in a message that asks what the server can do. */
  declaresStreams = false
  declaresWhereAsked = false
  /** It names a client that is known to read event streams. */
  isOfKnownClient = false
  /** An id is a number that JavaScript cannot hold. */
  isInexact = false
  /** An id is too long to be kept, or cannot be held. */
  isOversized = false
  #named = ''

  constructor(messages: readonly Message[], triggers: TriggerTable) {
    this.count = messages.length
    this.isTooMany = messages.length > MOST_MESSAGES
    for (let i = 0; i < messages.length; i++) {
      const message = messages[i] as Message
      this.#read(message, triggers)
      if (i < MOST_NAMED) this.#named += i === 0 ? nameOf(message) : `, ${nameOf(message)}`
    }
    if (this.isInexact) this.parts |= triggers.byTrait('inexact')
    if (this.isOversized) this.parts |= triggers.byTrait('oversized')
    if (this.answered.length > 0) this.parts |= triggers.byTrait('answers')
  }

  /** There are only responses. */
  get areResponses(): boolean {
    return this.count > 0 && this.answered.length === this.count
  }

  /** What it asks for, such as `tools/call report`: for the debug log. */
  get inWords(): string {
    if (this.count === 0) return 'a request whose body is not known'
    const rest = this.count - MOST_NAMED
    return rest > 0 ? `${this.#named} and ${rest} more` : this.#named
  }

  #read(message: Message, triggers: TriggerTable): void {
    const { id, method } = message
    if (isOversizedId(id)) {
      this.isOversized = true
      if (typeof id === 'number') this.isInexact = true
    }
    if (typeof method !== 'string') {
      if (isResponse(message)) this.answered = withId(this.answered, message.id)
      return
    }
    const params = objectIn(message.params)
    const meta = params['_meta'] === undefined ? undefined : objectIn(params['_meta'])
    this.parts |= triggers.byMessage(method, params, meta)
    const isAsking = typeof id === 'string' || typeof id === 'number'
    if (isAsking) this.requestIds = this.count === 1 ? [id] : withId(this.requestIds, id)
    else {
      const cancelled = cancelledRequest(message)
      if (cancelled !== undefined) this.cancelled = withId(this.cancelled, cancelled)
    }
    if (method === 'initialize') this.isInitialize = true
    if (method === 'server/discover') this.isDiscovery = true
    if (method === 'initialize') this.#readClient(message, params['clientInfo'], true)
    else if (meta !== undefined)
      this.#readClient(message, meta[CLIENT_INFO], method === 'server/discover')
    const progressToken = meta?.['progressToken']
    if (!isAsking || progressToken === undefined || !isRequestId(progressToken)) return
    if (!isOversizedId(progressToken))
      this.progressTokens = withId(this.progressTokens, progressToken)
  }

  /** What it says of its client. */
  #readClient(message: Message, info: unknown, asksForCapabilities: boolean): void {
    if (declaresStreams(message)) {
      this.declaresStreams = true
      if (asksForCapabilities) this.declaresWhereAsked = true
    }
    if (isObject(info) && typeof info['name'] === 'string' && KNOWN_CLIENTS.test(info['name']))
      this.isOfKnownClient = true
  }
}

/** In the same list from the second on: a batch may be of any number. */
function withId(ids: readonly RequestId[], id: RequestId): readonly RequestId[] {
  if (ids.length === 0) return [id]
  ;(ids as RequestId[]).push(id)
  return ids
}

function nameOf({ method, params }: Message): string {
  const { name, uri } = (params ?? {}) as { name?: unknown; uri?: unknown }
  const what = typeof name === 'string' ? name : typeof uri === 'string' ? bare(uri) : ''
  const words = typeof method === 'string' ? method : 'an answer'
  const text = what === '' ? words : `${words} ${what}`
  return text.length > LONGEST_NAME ? shortened(text) : text
}

/** A URI without what may be secret in it: log-in, query, fragment. */
function bare(uri: string): string {
  const plain = uri.replace(/[?#].*$/s, '')
  return plain.includes('@') ? plain.replace(/^([\w+.-]*:(?:\/\/)?)?.*@/s, '$1') : plain
}

/** A copy, as a part of a string keeps all of it in memory. */
function shortened(text: string): string {
  return Buffer.from(text.slice(0, LONGEST_NAME)).toString()
}

const NO_MESSAGES: readonly Message[] = []
const NO_FACTS = new RequestFacts(NO_MESSAGES, new TriggerTable())
const OVER: Next = () => undefined

export class RequestContext<Instance extends InstanceParts = InstanceParts> {
  /** The middleware that the request came through. */
  readonly instance: Instance
  readonly req: IncomingMessage & { originalUrl?: string }
  readonly res: ServerResponse
  /** Lets those behind us answer. */
  next: Next
  readonly identity: Identity
  /** Who it is from; '' if that is unknown. */
  readonly owner: string
  readonly method: string
  /** To whom it is special: nobody else is asked about it. */
  parts: Parts
  /** The middleware has sent it itself. */
  readonly isOwn: boolean
  session: string | undefined
  /** The cursor of a client that resumes at the endpoint. */
  lastEventId: string | undefined
  /** As its client has sent it: endpoints rewrite it to please their SDK. */
  readonly accept: string
  /** What it prefers of how it is answered (RFC 7240). */
  readonly prefer: string | undefined
  /** It names an MCP session or a protocol version: nothing but an MCP client does. */
  readonly hasMcpHeaders: boolean
  /** The body of a POST, once it has been read; `undefined` where that could not be done. */
  body: unknown
  /** The body could not be read ahead: `learnParsed` looks whether a parser behind us has. */
  isUnread = false
  /** The JSON that it was parsed from, where that is known. */
  text: string | undefined
  /** Until the endpoint is called, or the request waits for something else. */
  messages = NO_MESSAGES
  /** What they say, which is kept. */
  facts = NO_FACTS
  /** The body is an array (2025-03-26). */
  isBatch = false
  keyedCall: KeyedCall | undefined
  secondChannel: SecondChannel | undefined
  /** It has come to an instance that leaves. */
  readonly isLate: boolean
  /** What becomes of its session is seen when its response is over, and not by its head alone. */
  isWatched = false
  #path: string | undefined
  /** The revision that its head names. */
  readonly #revision: string | undefined
  #known: SessionFacts | undefined
  /** Bytes of memory that the body takes, once it is parsed. */
  #memory: number | undefined
  #profile: ClientProfile | undefined

  constructor(
    instance: Instance,
    req: IncomingMessage,
    res: ServerResponse,
    next: Next,
    identity: Identity
  ) {
    this.instance = instance
    this.req = req
    this.res = res
    this.next = next
    this.identity = identity
    this.owner = identity.owner
    this.method = req.method ?? ''
    const { headers } = req
    const revision = headers['mcp-protocol-version']
    this.accept = headers.accept ?? ''
    this.prefer = headers['prefer']?.toString()
    this.lastEventId = headers['last-event-id']?.toString()
    this.session = headers['mcp-session-id']?.toString()
    this.hasMcpHeaders = this.session !== undefined || revision !== undefined
    this.#revision = revision === undefined ? undefined : parseRevision(revision)
    const { triggers } = instance
    this.parts = triggers.byHead(req)
    this.isOwn = LOOPBACK in req.socket
    if (this.isOwn) this.parts |= triggers.byTrait('own')
    if (identity.kind === 'failed') this.parts |= triggers.byTrait('owner-failed')
    this.isLate = instance.isClosing
    if (this.isLate) this.parts |= triggers.byTrait('leaving')
    if (this.session !== undefined && this.session.length > MOST_ID_LENGTH)
      this.parts |= triggers.byTrait('oversized')
  }

  /** The path as its client has named it, wherever the middleware is mounted. */
  get path(): string {
    return (this.#path ??= pathOf(this.req))
  }

  /** The request that it brings; `undefined`: it brings something else, or a batch. */
  get soleRequest(): RequestMessage | undefined {
    const [message] = this.messages
    return message !== undefined && !this.isBatch && isRequest(message) ? message : undefined
  }

  /** What the session has negotiated, else what the request says in its head. */
  get revision(): string | undefined {
    return this.known.revision ?? this.#revision
  }

  /** What is known of its session. */
  get known(): SessionFacts {
    if (this.session === undefined) return NOTHING_KNOWN
    return (this.#known ??= this.instance.sessions.of(this.owner, this.session))
  }

  get acceptsEvents(): boolean {
    return acceptsEvents(this.accept)
  }

  get prefersStream(): boolean {
    return prefersStream(this.prefer)
  }

  get hasOversizedSession(): boolean {
    return this.session !== undefined && this.session.length > MOST_ID_LENGTH
  }

  /** It comes from a page that must not read streams. */
  get isForeign(): boolean {
    return isForeignOrigin(this.req, this.instance.allowedOrigins)
  }

  /** A browser has made it by itself, with nothing to tell who it is but its cookie. */
  get cameByCookie(): boolean {
    return this.identity.kind === 'cookie'
  }

  get profile(): ClientProfile {
    if (this.#profile !== undefined) return this.#profile
    const { instance, facts, known } = this
    const profile = this.#profileOf(known)
    const isDeclared = facts.declaresStreams || known.hasStreams
    return (this.#profile =
      isDeclared && instance.notifications !== 'never' ? declaring(profile) : profile)
  }

  /** By the stream's owner, as a cookie's may be another, and by its client if none is named. */
  profileOn({ owner, profile }: Opened): ClientProfile {
    return this.#profileOf(this.instance.sessions.of(owner, this.session), profile)
  }

  /**
   * What its stream says when it begins, as it ends with a notification, too (Streams draft).
   * `undefined`: nothing; so does that of `initialize`, which agrees on it.
   */
  announcementIn(sessionId: string | undefined): ResumeInterval | undefined {
    const { notifications, resumeInterval, sessions } = this.instance
    const { isInitialize, declaresStreams } = this.facts
    if (notifications === 'never' || isInitialize) return undefined
    let isAgreed = declaresStreams
    if (sessionId !== undefined) {
      const known = sessionId === this.session ? this.#known : undefined
      isAgreed ||= (known ?? sessions.of(this.owner, sessionId)).hasStreams
    }
    return isAgreed || notifications === 'always' ? resumeInterval : undefined
  }

  /**
   * What has no owner is not kept from a browser with a cookie. `isOwnedBy` may compare digests.
   */
  mayRead(isOwnedBy: (owner: string) => boolean): boolean {
    return isOwnedBy(this.owner) || (this.cameByCookie && isOwnedBy(''))
  }

  /** A key or token, bound to owner, session and path. A digest, as names may be long. */
  scopeOf(key = ''): string {
    return hashOf(JSON.stringify([this.owner, this.session ?? null, this.path, key]))
  }

  /** Lets the answer carry the owner's cookie. */
  giveCookie(): void {
    if (this.owner !== '') this.instance.cookie?.addTo(this.req, this.res, this.owner)
  }

  /** Bytes of memory that it takes as long as the endpoint holds it, roughly. */
  get memory(): number {
    return memoryOfRequest(this.req, this.#memory)
  }

  learn({ body, text, memory }: KnownBody): void {
    this.isUnread = body === undefined
    this.body = body
    this.text = text
    this.#memory = memory
    this.messages = messagesOf(body)
    this.facts = new RequestFacts(this.messages, this.instance.triggers)
    this.parts |= this.facts.parts
    this.isBatch = Array.isArray(body)
    this.#profile = undefined
  }

  /** A parser behind us may have made some by the time that the endpoint answers. */
  learnParsed(): RequestFacts {
    if (!this.isUnread || !isParsed(this.req)) return this.facts
    const parsed = parsedBody(this.req, this.instance.maxBodyBytes)
    // body-parser 1, which is in Express 4, puts an empty object there before it parses.
    if (!messagesOf(parsed.body).some(isJsonRpc)) return this.facts
    this.learn(parsed)
    this.dropBody()
    return this.facts
  }

  /** A body that was not read ahead turns out not to be MCP, and nothing in its head says so. */
  get isOther(): boolean {
    return this.isUnread && !this.hasMcpHeaders && isParsed(this.req)
  }

  /** The endpoint has been called: what was needed for that is not kept while it works. */
  release(): void {
    this.next = OVER
    this.messages = NO_MESSAGES
    this.body = undefined
    this.text = undefined
  }

  /** Drops the body and its messages: the facts stay. */
  dropBody(): void {
    this.messages = NO_MESSAGES
    this.body = undefined
    this.text = undefined
  }

  #profileOf(known: SessionFacts, opener?: ClientProfile): ClientProfile {
    const { primer, handoff } = this.instance
    const revision = known.revision ?? this.#revision
    const hasAnnounced =
      known.followsLinks || (this.prefer !== undefined && prefersStream(this.prefer))
    if (
      opener !== undefined &&
      (revision === undefined || !profileFor(revision, hasAnnounced).isDurable)
    ) {
      return hasAnnounced ? { ...opener, reconnects: 'always' } : opener
    }
    let profile = profileFor(revision, hasAnnounced)
    if (!profile.isDurable) return profile
    if (primer !== 'auto') profile = { ...profile, primer: FORCED_PRIMER[primer] }
    if (handoff === 'always') return { ...profile, handoff: 'when-quiet', reconnects: 'always' }
    return handoff === 'never' ? { ...profile, handoff: 'never' } : profile
  }
}

const FORCED_PRIMER: Record<'always' | 'never', Primer> = { always: 'empty', never: 'none' }

/** A GET for a listen channel in a session that has one already: the endpoint decides. */
export interface SecondChannel {
  /** The endpoint has opened a channel beside the one there is. */
  allowed(): void
  /** The endpoint has answered 409. `undefined`: its client is to see that. */
  refused(response: ResponseCapture): Capture | undefined
}
