// What one `mcpStreams()` owns, built from its settings.
import { random, urlAlphabet } from 'nanoid'
import type { ResumeInterval } from './protocol/stream-messages.js'
import {
  type Directory,
  type Here,
  type Keeper,
  LocalDirectory,
  UNKNOWN
} from './streams/directory.js'
import { atMost, Budget } from './streams/budget.js'
import { SessionPings } from './endpoint/session-pings.js'
import { Sessions } from './streams/sessions.js'
import { Record } from './streams/record.js'
import type { Stream } from './streams/stream.js'
import { StreamRegistry } from './streams/stream-registry.js'
import type { OwnerFunction } from './access/guards.js'
import { Admissions } from './endpoint/admission.js'
import { Connections } from './endpoint/connections.js'
import type { ClientEventName, CookieCode, PostOutcome } from './endpoint/instance-parts.js'
import { HandOffTimes, retryAtWill } from './features/hand-off/hand-off.js'
import { Unanswered } from './endpoint/unanswered.js'
import type { OtherInstances } from './endpoint/other-instances.js'
import { TriggerTable } from './endpoint/triggers.js'
import { routesOf } from './routes/index.js'
import {
  type Context,
  type OtherInstancesCode,
  type Routes,
  type RoutesInstance,
  walk
} from './routes/route.js'
import { abandonAfterOf, featuresOf, keptFor } from './features.js'
import type { RegistryLimits } from './streams/stream-types.js'
import { Closing } from './closing.js'
import { debug, publishLink, tell } from './diagnostics.js'
import { Observations } from './observations.js'
import type { Settings } from './options/options.js'
import { codeOf } from './options/part.js'

export class Instance implements RoutesInstance {
  // Who a request is from.
  readonly owner: OwnerFunction
  readonly cookie: CookieCode | undefined
  readonly allowedOrigins: ReadonlySet<string>
  readonly sessions: Sessions
  readonly outcomes = new Set<(outcome: PostOutcome) => void>()
  readonly sessionEnded = new Set<(sessionId: string, owner: string, isLost: boolean) => void>()
  readonly admissions = new Admissions()
  readonly sessionPings: SessionPings

  // What is kept, and who reads it.
  readonly table: StreamRegistry
  readonly connections: Connections
  readonly bodies: Budget

  // What is known of the endpoint.
  readonly unanswered: Unanswered

  // What is answered in place of the endpoint.
  readonly triggers = new TriggerTable()
  readonly routes: Routes
  readonly features: RoutesInstance['features']
  readonly keys: RoutesInstance['keys']
  readonly surviving: RoutesInstance['surviving']
  readonly waitingStreams: RoutesInstance['waitingStreams']
  readonly slow: RoutesInstance['slow']
  readonly progress: RoutesInstance['progress']
  readonly eventStore: RoutesInstance['eventStore']
  readonly links: RoutesInstance['links']

  // Other instances.
  readonly others: OtherInstances<Context> | undefined
  readonly directory: Directory
  readonly newId: () => string
  readonly kept: Keeper | undefined

  // The end.
  readonly closing: Closing
  isClosing = false

  readonly observations = new Observations()

  // Settings, as they are.
  readonly maxBodyBytes: number
  readonly maxEventBytes: number
  readonly maxAnswerBytes: number
  readonly primer: Settings['primer']
  readonly handoff: Settings['handoff']
  readonly notifications: Settings['notifications']
  readonly resumeInterval: ResumeInterval
  readonly debug = debug
  readonly #onError: Settings['onError']

  constructor(settings: Settings) {
    const { maxStreams, maxBytes, maxStreamBytes } = settings
    this.owner = settings.owner
    this.cookie = codeOf<CookieCode>(settings.cookie)
    this.allowedOrigins = settings.allowedOrigins
    this.maxBodyBytes = settings.maxBodyBytes
    this.maxEventBytes = maxBytes
    this.maxAnswerBytes = maxStreamBytes
    this.primer = settings.primer
    this.handoff = settings.handoff
    this.notifications = settings.notifications
    this.resumeInterval = settings.resumeInterval
    this.#onError = settings.onError

    this.sessions = new Sessions(maxStreams)
    this.sessionPings = new SessionPings(debug, maxStreams)
    const here = this.#here()
    this.others = codeOf<OtherInstancesCode>(settings.backplane)?.(this, {
      here,
      maxEntries: maxStreams,
      keptFor: keptFor(settings),
      keepAlive: settings.keepAlive,
      answerAgain: context => walk(context, this.routes.byHead),
      mayBeRevived: session => this.surviving?.mayBeRevived(session) === true,
      changed: (state, tag) => {
        debug('backplane %s', state)
        publishLink(state, tag)
      }
    })
    this.directory = this.others?.directory ?? here
    this.newId = this.others?.newId ?? newId
    this.kept = this.others?.kept
    this.table = this.#registry(settings)
    this.connections = this.#connections(settings)
    this.table.onLook = id => this.connections.giveStreams(id)
    this.bodies = bodyBudget(settings)
    this.unanswered = new Unanswered(debug, maxStreams)
    const brought = featuresOf(settings, this)
    this.features = brought.features
    this.keys = brought.keys
    this.surviving = brought.surviving
    this.waitingStreams = brought.waitingStreams
    this.slow = brought.slow
    this.progress = brought.progress
    this.eventStore = brought.eventStore
    this.links = brought.links
    this.routes = routesOf(this)
    this.closing = new Closing(this, settings.retry)
  }

  readonly count = (
    name: ClientEventName,
    stream: Stream | Record | undefined,
    reason?: string
  ): void => {
    this.observations.count(name, stream, reason)
  }

  /** Calls `onError` by itself: what it throws is uncaught, and does not break the stream. */
  report(error: Error, streamId: string | undefined): void {
    process.nextTick(this.#onError, error, { streamId })
  }

  #here(): LocalDirectory {
    return new LocalDirectory({
      stream: id => this.table.find(id),
      ticket: id => this.#found(id)
    })
  }

  #found(name: string): Here<unknown, unknown> {
    for (const feature of this.features) {
      const found = feature.find?.(name) ?? UNKNOWN
      if (found.kind !== 'unknown') return found
    }
    return UNKNOWN
  }

  #registry(settings: Settings): StreamRegistry {
    return new StreamRegistry(
      registryLimits(settings),
      (name, stream, error) => {
        tell(name, stream, error)
        const isOver = name === 'completed' || name === 'failed'
        if (isOver) this.others?.streamEnded(stream as Stream | Record)
        if (error === undefined) return
        this.observations.failed(error.code)
        this.report(error, stream.id)
      },
      this.sessions
    )
  }

  #connections(settings: Settings): Connections {
    const { retry, keepAlive, disconnectAfter, maxStreamBytes } = settings
    const lost = (stream: Stream | Record): void => {
      if (stream instanceof Record) this.table.notGiven(stream)
      this.count('connection-lost', stream)
    }
    return new Connections(
      {
        retry,
        retryAtWill: retryAtWill(retry, settings.resumeInterval),
        keepAlive,
        disconnectAfter,
        maxStreamBytes,
        lost,
        debug
      },
      abandonAfterOf(settings),
      this.table.budget
    )
  }
}

/** Characters, six random bits each. */
const LENGTH = 21

const codes = Buffer.from(urlAlphabet, 'latin1')
const characters = Buffer.allocUnsafeSlow(LENGTH)

/** As `nanoid()`, made at once: V8 keeps each of the strings that it appends to. */
function newId(): string {
  const bytes = random(LENGTH)
  for (let i = 0; i < LENGTH; i++) characters[i] = codes[(bytes[i] as number) & 63] as number
  return characters.toString('latin1')
}

/** A quarter of `maxBytes`, and of that for one owner, but always one body of the greatest size. */
const BODIES_SHARE = 4
const OWNER_SHARE = 4

function registryLimits(settings: Settings): RegistryLimits {
  return {
    window: settings.window,
    maxStreamBytes: settings.maxStreamBytes,
    unsent: settings.maxUnsent,
    maxEventBytes: settings.maxBytes,
    maxBytes: settings.maxBytes,
    maxStreams: settings.maxStreams,
    handOff: settings.handoff === 'never' ? undefined : new HandOffTimes(settings.handoffAfter),
    abandonAfter: abandonAfterOf(settings)
  }
}

function bodyBudget({ maxBytes, maxBodyBytes }: Settings): Budget {
  const all = Math.max(maxBodyBytes, Math.floor(maxBytes / BODIES_SHARE))
  const ofOwner = Math.max(maxBodyBytes, Math.floor(all / OWNER_SHARE))
  return new Budget(all, { mostOfOwner: atMost(ofOwner) })
}
