// What the messages of a request say: read in one pass, and all that is kept of them while the
// endpoint works.
import { CLIENT_INFO } from '../protocol/envelope.js'
import {
  cancelledRequest,
  isInexactId,
  isObject,
  isOversizedId,
  isRequestId,
  isResponse,
  type Message,
  MOST_MESSAGES,
  objectIn,
  type RequestId
} from '../protocol/json-rpc.js'
import { declaresStreams } from '../protocol/stream-messages.js'
import type { Parts, TriggerTable } from './triggers.js'

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
  /** Progress tokens of its requests. */
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
  /** An id, or a progress token, is too long to be kept, or cannot be held. */
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
    if (id !== undefined && isOversizedId(id)) {
      this.isOversized = true
      if (isInexactId(id)) this.isInexact = true
    }
    if (typeof method === 'string') this.#readCall(message, method, triggers)
    else if (isResponse(message)) this.answered = added(this.answered, message.id)
  }

  #readCall(message: Message, method: string, triggers: TriggerTable): void {
    const { id } = message
    const params = objectIn(message.params)
    const meta = objectIn(params['_meta'])
    this.parts |= triggers.byMessage(method, params, meta)
    const isAsking = isRequestId(id)
    if (isAsking) this.requestIds = added(this.requestIds, id)
    else {
      const cancelled = cancelledRequest(message)
      if (cancelled !== undefined) this.cancelled = added(this.cancelled, cancelled)
    }
    const isBeginning = method === 'initialize'
    const isDiscovering = method === 'server/discover'
    if (isBeginning) this.isInitialize = true
    else if (isDiscovering) this.isDiscovery = true
    if (isBeginning || params['_meta'] !== undefined)
      this.#readClient(
        message,
        isBeginning ? params['clientInfo'] : meta[CLIENT_INFO],
        isBeginning || isDiscovering
      )
    const { progressToken } = meta
    if (progressToken === undefined || !isRequestId(progressToken)) return
    if (typeof progressToken === 'string' && isOversizedId(progressToken)) this.isOversized = true
    else if (isAsking) this.progressTokens = added(this.progressTokens, progressToken)
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
  if (/^data:/i.test(plain)) return 'data:'
  return plain.includes('@') ? plain.replace(/^([\w+.-]*:(?:\/\/)?)?.*@/s, '$1') : plain
}

/** Most requests have one message: a list is made for it, and copied for each further one. */
function added(ids: readonly RequestId[], id: RequestId): readonly RequestId[] {
  return ids.length === 0 ? [id] : [...ids, id]
}

/** A copy, as a part of a string keeps all of it in memory. */
function shortened(text: string): string {
  return Buffer.from(text.slice(0, LONGEST_NAME)).toString()
}
