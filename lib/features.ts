// The features of one instance, in the order in which they are asked, and how much each may take.
import { EventStore } from './features/event-store/event-store.js'
import { HandOff } from './features/hand-off/hand-off.js'
import { Idempotency } from './features/idempotency/idempotency.js'
import type { IdempotencyLimits } from './features/idempotency/idempotency-store.js'
import { Listen } from './features/listen/listen.js'
import { Progress } from './features/progress/progress.js'
import { StreamsDraft } from './features/streams-draft/streams-draft.js'
import { ResumeTokens } from './features/resume-tokens/resume-tokens.js'
import type { ResumeTokensSettings } from './features/resume-tokens/token-calls.js'
import { SlowCalls } from './features/slow-answers/slow-answers.js'
import type { Feature, FeatureCode, FeatureLimits, LastingSessions } from './endpoint/feature.js'
import type { InstanceParts } from './endpoint/instance-parts.js'
import type { RoutesInstance } from './routes/route.js'
import type { Settings } from './options/options.js'
import { codeOf, type Part } from './options/part.js'

/** All features of an instance, and of those that the core works with, what it knows them by. */
interface Features
  extends
    Pick<InstanceParts, 'eventStore' | 'links' | 'progress'>,
    Pick<RoutesInstance, 'features' | 'keys' | 'slow' | 'surviving' | 'waitingStreams'> {}

export function featuresOf(settings: Settings, parts: InstanceParts): Features {
  const tokens = tokensSettings(settings)
  const limits = featureLimits(settings)
  const carriedBy = <Made extends Feature>(
    part: Part<string> | false | undefined
  ): Made | undefined => codeOf<FeatureCode<Made>>(part || undefined)?.(parts, limits)
  const surviving = carriedBy<Feature & LastingSessions>(settings.sessions)
  const resources = carriedBy<Feature & Pick<InstanceParts, 'links'>>(settings.resources)
  const keys = new Idempotency(parts, answerLimits(settings))
  const waitingStreams = settings.handoff === 'never' ? undefined : new HandOff()
  const slow = new SlowCalls(settings, parts)
  const features = [
    surviving,
    new StreamsDraft(),
    carriedBy(settings.tasks),
    tokens && new ResumeTokens(parts, tokens),
    resources,
    keys,
    new Listen(),
    waitingStreams,
    slow
  ].filter(feature => feature !== undefined)
  return {
    features,
    keys,
    slow,
    surviving,
    waitingStreams,
    links: resources?.links,
    eventStore: new EventStore(settings.eventStore, parts),
    progress: settings.progress === false ? undefined : new Progress(settings.progress)
  }
}

/** Answers under keys, calls with tokens, and tasks may each take an eighth of `maxBytes`. */
const ANSWERS_SHARE = 8

const NO_TOKENS = { after: 0, offer: 'asked', methods: [], hints: {} } as const

/** Milliseconds without a connection after which a running call is abandoned. */
export function abandonAfterOf({ resumeInterval }: Settings): number {
  return Math.ceil(resumeInterval.max * 1000)
}

/** Milliseconds that results of calls are kept, delivered or not. */
export function keptFor(settings: Settings): number {
  return Math.max(1, settings.window, abandonAfterOf(settings))
}

function answerLimits(settings: Settings): IdempotencyLimits {
  return {
    maxCalls: settings.maxStreams,
    window: keptFor(settings),
    maxBytes: Math.ceil(settings.maxBytes / ANSWERS_SHARE),
    abandonAfter: abandonAfterOf(settings)
  }
}

/** `undefined`: there are neither resume tokens nor the rounds of `disconnectAfter`. */
function tokensSettings(settings: Settings): ResumeTokensSettings | undefined {
  const { disconnectAfter, maxStreams, maxStreamBytes, window } = settings
  if (settings.resumeTokens === false && disconnectAfter === null) return undefined
  const tokens = settings.resumeTokens === false ? NO_TOKENS : settings.resumeTokens
  return {
    areOn: settings.resumeTokens !== false,
    shedAfter: disconnectAfter,
    after: tokens.after,
    offer: tokens.offer,
    methods: tokens.methods === 'all' ? 'all' : new Set(tokens.methods),
    hints: new Map(Object.entries(tokens.hints)),
    limits: {
      maxCalls: maxStreams,
      maxCallBytes: maxStreamBytes,
      maxBytes: bytesOfCalls(settings),
      window,
      abandonAfter: abandonAfterOf(settings),
      keptFor: keptFor(settings)
    }
  }
}

function featureLimits(settings: Settings): FeatureLimits {
  return {
    maxEntries: settings.maxStreams,
    maxEntryBytes: settings.maxStreamBytes,
    maxBytes: bytesOfCalls(settings)
  }
}

function bytesOfCalls({ maxBytes, maxStreamBytes }: Settings): number {
  return Math.max(maxStreamBytes, Math.ceil(maxBytes / ANSWERS_SHARE))
}
