// How a session is begun again at the endpoint, in its client's name.
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import { now } from '../../protocol/clock.js'
import { Label } from '../../protocol/event-id.js'
import { isObject, objectIn } from '../../protocol/json-rpc.js'
import { outsideOfCalls } from '../../streams/timer.js'
import { type EndpointAnswer, readAnswer } from '../../endpoint/endpoint-answer.js'
import { isAccepted, sendToEndpoint } from '../../endpoint/endpoint-client.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { versionHeader } from '../../endpoint/session-pings.js'
import { Beginning, type BeginningOutcome } from './beginning.js'
import { FairLine } from './fair-line.js'
import { endAtEndpoint } from './idle-sessions.js'
import type { Seals, SessionParts } from './seal.js'
import { type Session, SessionNote } from './session.js'
import type { SharedMemory } from './shared-memory.js'

/** How many are begun again at once: a restart is no storm. */
const AT_ONCE = 32
/** Milliseconds that one may wait for its turn: half of the time that stock clients wait. */
const LONGEST_WAIT = 30_000
/** Milliseconds for which an endpoint may take to answer. */
const PATIENCE = 20_000
/** Bytes. */
const LIMITS = { event: 1024 * 1024, body: 1024 * 1024 }
/** Lists of which the endpoint can say that they have changed. */
const LISTS = ['tools', 'resources', 'prompts']

/** Why a session was not begun again. */
interface Failure {
  readonly outcome: Exclude<BeginningOutcome, 'begun'>
  readonly why: string
}

export class Revivals {
  revived = 0
  readonly #parts: InstanceParts
  readonly #seals: Seals
  readonly #shared: SharedMemory | undefined
  readonly #line: FairLine

  /** @param most how many may wait. */
  constructor(parts: InstanceParts, seals: Seals, most: number, shared: SharedMemory | undefined) {
    this.#shared = shared
    this.#parts = parts
    this.#seals = seals
    this.#line = new FairLine({ atOnce: AT_ONCE, most, patience: LONGEST_WAIT })
  }

  /** Begins a session again here, once for all requests that wait. */
  async begin(session: Session, request: RequestContext): Promise<BeginningOutcome> {
    const beginning = (session.beginning ??= this.#beginning(session, request.owner))
    beginning.join(request)
    const outcome = await beginning.outcome
    if (outcome !== 'left') return outcome
    // It came when all others had just gone.
    return request.res.destroyed ? 'refused' : this.begin(session, request)
  }

  #beginning(session: Session, owner: string): Beginning {
    return new Beginning((beginning, signal) =>
      outsideOfCalls(() =>
        this.#line.run(owner, () => this.#try(session, beginning.request.req), signal)
      )
        .finally(() => (session.beginning = undefined))
        .then(outcome => (outcome === 'full' || outcome === 'late' ? 'busy' : outcome))
    )
  }

  async #try(session: Session, req: IncomingMessage): Promise<BeginningOutcome> {
    // One that was idle was ended by us.
    if (session.state !== 'idle' && !session.mayTry(now())) {
      this.#debug(session, 'not begun again: that was tried three times in the last minute')
      if (session.isRevived) warnOfLostAgain()
      return 'refused'
    }
    const failure = await this.#revive(session, req)
    this.#debug(session, failure === undefined ? 'begun again' : `not begun again: ${failure.why}`)
    if (failure !== undefined) return failure.outcome
    this.revived++
    session.isRevived = true
    this.#parts.sessionPings.forget(session.owner, session.name)
    return 'begun'
  }

  async #revive(session: Session, req: IncomingMessage): Promise<Failure | undefined> {
    const parts = this.#seals.open(session.owner, session.id) as SessionParts
    if (parts.expires < Date.now()) return ended(session, 'too old')
    if ((await this.#shared?.hasEnded(session.name)) === true)
      return ended(session, 'it has ended at another instance')
    const ask = this.#asker(session, req)
    const begun = await ask('initialize', parts.params, undefined)
    const { sessionId, result } = begun
    if (sessionId === undefined) return refused(begun)
    const failure = await this.#complete(session, parts, { ask, sessionId, result })
    if (failure === undefined) return undefined
    // Nothing is left of it at the endpoint.
    await endAtEndpoint(req, versionHeader(session.revision), new SessionNote(sessionId)).catch(
      (error: unknown) => this.#parts.debug('a session was not taken back: %o', error)
    )
    return failure
  }

  async #complete(
    session: Session,
    parts: SessionParts,
    { ask, sessionId, result }: { ask: Ask; sessionId: string; result: unknown }
  ): Promise<Failure | undefined> {
    if (!isObject(result) || !isAsBefore(result, parts))
      return { outcome: 'refused', why: 'the endpoint is another one' }
    const initialized = await ask(INITIALIZED, {}, sessionId)
    if (!isAccepted({ statusCode: initialized.status })) return refused(initialized)
    const wishes = (await this.#shared?.wishesAsRequests(session.name)) ?? []
    await Promise.all(wishes.map(({ method, params }) => ask(method, params, sessionId)))
    const capabilities = objectIn(result['capabilities'])
    const changing = LISTS.filter(list => objectIn(capabilities[list])['listChanged'] === true)
    session.endpointId = sessionId
    session.notices = changing.map(listChanged)
    return undefined
  }

  /** Sends messages with the headers of `req`, through all that stands in front. */
  #asker(session: Session, req: IncomingMessage): Ask {
    const headers = versionHeader(session.revision)
    return async (method, params, shown) => {
      const id = method === INITIALIZED ? undefined : `mcp-streams-${nanoid()}`
      const message = { jsonrpc: '2.0', id, method, params }
      const note = new SessionNote(shown)
      try {
        const response = await sendToEndpoint(req, message, { headers, note, patience: PATIENCE })
        const { statusCode: status = 0 } = response
        const sessionId = response.headers['mcp-session-id']?.toString()
        if (id === undefined) {
          response.destroy()
          return { status, sessionId, result: undefined }
        }
        const answer = await new Promise<EndpointAnswer>(answered =>
          readAnswer(response, id, LIMITS, { heard: () => undefined, answered })
        )
        const result = answer.kind === 'response' ? answer.message.result : undefined
        return { status, sessionId, result }
      } catch (error) {
        this.#parts.debug('the endpoint does not answer to %s: %o', method, error)
        return { status: 0, sessionId: undefined, result: undefined }
      }
    }
  }

  #debug({ name }: Session, what: string): void {
    this.#parts.debug('session %s: %s', new Label(name, name), what)
  }
}

interface Asked {
  /** 0: there is no answer. */
  readonly status: number
  readonly sessionId: string | undefined
  readonly result: unknown
}

/** `shown`: the id of the session that the endpoint sees; `undefined`: none. */
type Ask = (method: string, params: object, shown: string | undefined) => Promise<Asked>

const INITIALIZED = 'notifications/initialized'

function ended(session: Session, why: string): Failure {
  session.state = 'ended'
  return { outcome: 'refused', why }
}

/** An endpoint that is not well may begin it soon. */
function refused({ status }: Asked): Failure {
  const isBusy = status === 0 || status === 429 || status >= 500
  return { outcome: isBusy ? 'busy' : 'refused', why: `the endpoint has refused it (${status})` }
}

function listChanged(list: string): string {
  return JSON.stringify({ jsonrpc: '2.0', method: `notifications/${list}/list_changed` })
}

/** Its client counts on the revision, and on all that the endpoint was able to do. */
function isAsBefore(
  { protocolVersion, capabilities }: Record<string, unknown>,
  before: SessionParts
): boolean {
  return protocolVersion === before.revision && hasAll(capabilities, before.capabilities)
}

function hasAll(now: unknown, before: unknown): boolean {
  if (!isObject(before)) return before === false || before === undefined || now === before
  return isObject(now) && Object.entries(before).every(([name, value]) => hasAll(now[name], value))
}

let hasWarned = false

function warnOfLostAgain(): void {
  if (hasWarned) return
  hasWarned = true
  process.emitWarning(
    'The endpoint has forgotten a session more than three times in a minute, which is not begun ' +
      'again for now: are there several servers with sessions of their own behind one address?',
    { code: 'MCP_STREAMS_SESSION_LOST_AGAIN' }
  )
}
