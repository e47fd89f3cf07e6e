// Whether the endpoint still knows a session, and how it is begun again in its client's name.
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import { Label } from '../../protocol/event-id.js'
import { isObject, type Message, objectIn } from '../../protocol/json-rpc.js'
import { parseRevision } from '../../protocol/revisions.js'
import { declaresStreams } from '../../protocol/stream-messages.js'
import { resourceStreamingIn } from '../../streams/sessions.js'
import { outsideOfCalls } from '../../streams/timer.js'
import { type EndpointAnswer, readAnswer } from '../../endpoint/endpoint-answer.js'
import { endAtEndpoint, isAccepted, sendToEndpoint } from '../../endpoint/endpoint-client.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import { RevivalLine } from './revival-line.js'
import type { SharedMemory } from './shared-memory.js'
import { nameIn, type Seals, type SessionParts } from './seal.js'

/**
 * - `unproved`: this process does not know whether the endpoint knows it.
 * - `known`: the endpoint has begun it here, or has answered to it here.
 * - `ended`: by its client, by the endpoint, or as it could not be begun again.
 */
type SessionState = 'unproved' | 'known' | 'ended'

export class Session {
  readonly id: string
  readonly name: string
  readonly owner: string
  endpointId: string
  state: SessionState = 'unproved'
  /** Set while it is proved. */
  proof: Promise<Proof> | undefined
  /** What the ids of the endpoint's requests name, where they must differ from others'. */
  askerId: string | undefined
  /** Messages in JSON that its client is to have with the next event stream. */
  notices: readonly string[] = []

  constructor(id: string, owner: string, endpointId: string) {
    this.id = id
    this.name = nameIn(id)
    this.owner = owner
    this.endpointId = endpointId
  }

  /** What has begun without an owner is of whoever has its id, as it is without us. */
  isOf(owner: string): boolean {
    return this.owner === owner || this.owner === ''
  }
}

/** The id of a session that the endpoint is shown with a message; `undefined`: none. */
interface Shown {
  readonly id: string | undefined
}

/** `full`: too many sessions wait to be begun again. */
type Proof = 'done' | 'full'

/** Milliseconds for which an endpoint may take to answer. */
const PATIENCE = 30_000
/** Bytes. */
const LIMITS = { event: 1024 * 1024, body: 1024 * 1024 }
/** Lists of which the endpoint can say that they have changed. */
const LISTS = ['tools', 'resources', 'prompts']

export class Revivals {
  revived = 0
  readonly #parts: InstanceParts
  readonly #seals: Seals
  readonly #shared: SharedMemory | undefined
  readonly #line: RevivalLine
  /** What the endpoint is shown in messages of ours, by the params of each. */
  readonly #shown = new WeakMap<object, Shown>()

  constructor(parts: InstanceParts, seals: Seals, most: number, shared: SharedMemory | undefined) {
    this.#shared = shared
    this.#parts = parts
    this.#seals = seals
    this.#line = new RevivalLine(most)
  }

  /** `undefined`: it is no message of ours. */
  shownIn({ params }: Message): Shown | undefined {
    return isObject(params) ? this.#shown.get(params) : undefined
  }

  /** Once for all requests that wait. */
  prove(session: Session, req: IncomingMessage, owner: string): Promise<Proof> {
    return (session.proof ??= outsideOfCalls(() => this.#prove(session, req, owner)).finally(
      () => (session.proof = undefined)
    ))
  }

  /** With a `ping`, as the request itself must not run twice. */
  async #prove(session: Session, req: IncomingMessage, owner: string): Promise<Proof> {
    const parts = this.#seals.open(session.owner, session.id) as SessionParts
    const { status } = await this.#ask(req, 'ping', {}, session.endpointId)
    const isUnknown = status === 404 || status === 400
    // Another status says nothing of the session, and comes to the client for its own request.
    if (!isUnknown && !isAccepted({ statusCode: status })) return 'done'
    if (isUnknown) {
      const why = await this.#line.run(owner, () => this.#revive(session, parts, req))
      if (why === 'full') return 'full'
      this.#parts.debug(
        'session %s: %s',
        new Label(session.name, session.name),
        why ?? 'begun again'
      )
      if (why !== undefined) {
        session.state = 'ended'
        this.#parts.count('refused', undefined, 'session-ended')
        return 'done'
      }
      this.revived++
    }
    session.state = 'known'
    this.#learn(session.name, parts, owner)
    return 'done'
  }

  /** What a process knows that has seen the session begin. */
  #learn(name: string, { params, revision }: SessionParts, owner: string): void {
    const { sessions } = this.#parts
    const hasStreams = declaresStreams({ method: 'initialize', params })
    sessions.see(owner, name)
    sessions.negotiated(owner, name, parseRevision(revision), hasStreams)
    sessions.declare(owner, name, resourceStreamingIn(params['capabilities']))
  }

  /** `undefined`: it was begun again. Else why not. */
  async #revive(
    session: Session,
    parts: SessionParts,
    req: IncomingMessage
  ): Promise<string | undefined> {
    if (parts.expires < Date.now()) return 'not begun again: too old'
    if ((await this.#shared?.hasEnded(session.name)) === true)
      return 'not begun again: it has ended at another instance'
    const answer = await this.#ask(req, 'initialize', parts.params, undefined)
    const { sessionId } = answer
    if (sessionId === undefined || !isObject(answer.result))
      return `not begun again: the endpoint has refused it (${answer.status})`
    if (!isAsBefore(answer.result, parts)) {
      await endAtEndpoint(req, sessionId).catch(() => undefined)
      return 'not begun again: the endpoint is another one'
    }
    const { status } = await this.#ask(req, INITIALIZED, {}, sessionId)
    if (!isAccepted({ statusCode: status })) return `not begun again: not accepted (${status})`
    const wishes = (await this.#shared?.wishesAsRequests(session.name)) ?? []
    await Promise.all(wishes.map(one => this.#ask(req, one.method, one.params, sessionId)))
    const capabilities = objectIn(answer.result['capabilities'])
    const changing = LISTS.filter(list => objectIn(capabilities[list])['listChanged'] === true)
    session.endpointId = sessionId
    session.notices = changing.map(listChanged)
    return undefined
  }

  /** Sends it with the headers of `req`, through all that stands in front. */
  async #ask(
    req: IncomingMessage,
    method: string,
    params: object,
    shown: string | undefined
  ): Promise<Asked> {
    const id = method === INITIALIZED ? undefined : `mcp-streams-${nanoid()}`
    this.#shown.set(params, { id: shown })
    try {
      const message = { jsonrpc: '2.0', id, method, params }
      const response = await sendToEndpoint(req, message, { patience: PATIENCE })
      const { statusCode: status = 0, headers } = response
      const sessionId = headers['mcp-session-id']?.toString()
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

interface Asked {
  /** 0: there is no answer. */
  readonly status: number
  readonly sessionId: string | undefined
  readonly result: unknown
}

const INITIALIZED = 'notifications/initialized'

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
