// Requests that ask for resume tokens, or carry one, on any wire: which call each belongs to.
import type { Message, RequestMessage } from '../../protocol/json-rpc.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import { type Ask, askOf, asksForTokens, type CallFacts, parametersOf } from './token-request.js'
import { CallStore, type CallStoreLimits } from './call-store.js'
import type { Call, CallReply } from './call.js'
import { refusalFor, type ResumeTokenFault } from './token-fault.js'
import type { DurationHints } from './duration-hints.js'

export type CallPlace = Pick<CallFacts, 'owner' | 'sessionId' | 'scope'>

export class TokenCalls {
  readonly parts: InstanceParts
  readonly settings: ResumeTokensSettings
  readonly store: CallStore

  constructor(parts: InstanceParts, settings: ResumeTokensSettings) {
    this.parts = parts
    this.settings = settings
    this.store = new CallStore(settings.limits, parts.newId, parts.kept)
  }

  /** How a request asks for tokens; `undefined`: it asks for none, or may not have any. */
  askOf(request: RequestMessage, prefer: string | undefined): Ask | undefined {
    const { settings } = this
    if (!mayGetTokens(settings, request)) return undefined
    const isOffered = settings.offer === 'always' || asksForTokens(prefer, request)
    return isOffered ? askOf(prefer, request) : undefined
  }

  /** The facts of a new call; `undefined`: there is no room for it, so it gets no tokens. */
  admit(
    request: RequestMessage,
    place: CallPlace,
    text: string | undefined
  ): CallFacts | undefined {
    const parameters = parametersOf(request, text)
    if (parameters === undefined) return undefined
    if (this.store.hasRoom(place.owner)) return { ...place, method: request.method, parameters }
    this.parts.debug('no resume tokens: as many calls run as may')
    this.parts.count('refused', undefined, 'full')
    return undefined
  }

  find(
    request: RequestMessage,
    scope: string,
    text: string | undefined,
    reply: CallReply
  ): Call | undefined {
    const found = this.store.find(request, scope, text)
    if (typeof found !== 'string') return found
    this.refuse(request, found, reply)
    return undefined
  }

  refuse({ method }: Message, fault: ResumeTokenFault, reply?: CallReply): void {
    this.parts.debug('%s with a resume token refused: %s', method, fault)
    this.parts.count('refused', undefined, fault)
    reply?.answer(refusalFor(fault))
  }
}

export interface ResumeTokensSettings {
  readonly areOn: boolean
  /** Milliseconds after which a client of 2026-07-28 is told to come again; `null`: never. */
  readonly shedAfter: number | null
  /** Milliseconds until a token is given, if the request does not say how long it waits. */
  readonly after: number
  readonly offer: 'asked' | 'always'
  readonly methods: ReadonlySet<string> | 'all'
  readonly hints: DurationHints
  readonly limits: CallStoreLimits
}

/** The longest wait in milliseconds: the timeout of official clients for a request. */
const LONGEST_WAIT = 60_000

/** Not `initialize`, whose answer also has the session in its head. */
function mayGetTokens(
  { methods }: ResumeTokensSettings,
  { method }: Message & { readonly method: string }
): boolean {
  return methods === 'all' ? method !== 'initialize' : methods.has(method)
}

/** Milliseconds for which a request waits. */
export function waitOf({ after }: ResumeTokensSettings, { wait }: Ask): number {
  return wait === undefined ? after : Math.min(wait, Math.max(LONGEST_WAIT, after))
}
