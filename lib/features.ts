// The optional parts of one instance, in the order in which they are asked.
import { HandOff } from './features/hand-off/hand-off.js'
import { Idempotency } from './features/idempotency/idempotency.js'
import type { IdempotencyLimits } from './features/idempotency/idempotency-store.js'
import { Listen } from './features/listen/listen.js'
import { StreamsDraft } from './features/streams-draft/streams-draft.js'
import { ResumeTokens } from './features/resume-tokens/resume-tokens.js'
import type { ResumeTokensSettings } from './features/resume-tokens/token-calls.js'
import { SlowCalls } from './features/slow-answers/slow-answers.js'
import type { Feature, FeatureCode, FeatureLimits } from './endpoint/feature.js'
import type { InstanceParts } from './endpoint/instance-parts.js'
import type { Settings } from './options/options.js'
import { codeOf, type Part } from './options/part.js'

/** @param tokens `undefined`: neither resume tokens nor the rounds of `disconnectAfter`. */
export function featuresOf(
  settings: Settings,
  tokens: ResumeTokensSettings | undefined,
  answers: IdempotencyLimits,
  parts: InstanceParts,
  limits: FeatureLimits
): readonly Feature[] {
  const { sessions, tasks, resources } = settings
  const carriedBy = (part: Part<string> | false | undefined): Feature | undefined =>
    codeOf<FeatureCode>(part || undefined)?.(parts, limits)
  return [
    carriedBy(sessions),
    new StreamsDraft(),
    carriedBy(tasks),
    tokens && new ResumeTokens(parts, tokens),
    carriedBy(resources),
    new Idempotency(parts, answers),
    new Listen(),
    settings.handoff === 'never' ? undefined : new HandOff(),
    new SlowCalls(settings, parts)
  ].filter(feature => feature !== undefined)
}
