// Divides what the settings allow among the parts of an instance.
import type { ResumeTokensSettings } from './calls/token-settings.js'
import type { TasksSettings } from './calls/tasks/task-settings.js'
import { atMost, Quota } from './streams/quota.js'
import type { RegistryLimits } from './streams/stream-types.js'
import type { Settings } from './settings.js'

/**
 * Reconnection time after a disconnect at will, in milliseconds: the upper limit of `retry`, and
 * its value where `retry` is off.
 */
const AT_WILL_RETRY = 1000
/** Answers under keys, calls with tokens, and tasks may each take an eighth of `maxBytes`. */
const ANSWERS_SHARE = 8
/**
 * Bodies that are read ahead may take a quarter of `maxBytes` together, and a quarter of that for
 * one owner, but always one body of the greatest size.
 */
const BODIES_SHARE = 4
const OWNER_SHARE = 4

const NO_TOKENS = { after: 0, offer: 'asked', methods: [], hints: {} } as const

/** Milliseconds without a connection after which a running call is abandoned. */
export function abandonAfterOf({ resumeInterval }: Settings): number {
  return Math.ceil(resumeInterval.max * 1000)
}

/**
 * Milliseconds for which the results of calls are kept for other instances and under keys,
 * delivered or not.
 */
export function keptFor(settings: Settings): number {
  return Math.max(1, settings.window, abandonAfterOf(settings))
}

export function registryLimits(settings: Settings): RegistryLimits {
  return {
    window: settings.window,
    maxStreamBytes: settings.maxStreamBytes,
    unsent: settings.maxUnsent,
    maxEventBytes: settings.maxBytes,
    maxBytes: settings.maxBytes,
    maxStreams: settings.maxStreams,
    handoffQuiet: settings.handoffQuiet,
    handoffAfter: settings.handoffAfter,
    abandonAfter: abandonAfterOf(settings)
  }
}

/** The reconnection time, in milliseconds, of clients that are disconnected at will. */
export function retryAtWill({ retry, resumeInterval }: Settings): number {
  const highest = Math.min(retry ?? AT_WILL_RETRY, AT_WILL_RETRY)
  return Math.max(highest, Math.round(resumeInterval.min * 1000))
}

/** The limits of answers that are kept under an `Idempotency-Key`. */
export function answerLimits(
  settings: Settings
): Record<'maxCalls' | 'window' | 'maxBytes', number> {
  return {
    maxCalls: settings.maxStreams,
    window: keptFor(settings),
    maxBytes: Math.ceil(settings.maxBytes / ANSWERS_SHARE)
  }
}

/** `undefined`: there are neither resume tokens nor the rounds of `disconnectAfter`. */
export function tokensSettings(settings: Settings): ResumeTokensSettings | undefined {
  const { disconnectAfter, maxRounds, maxStreams, maxStreamBytes, window } = settings
  if (settings.resumeTokens === false && disconnectAfter === null) return undefined
  const tokens = settings.resumeTokens === false ? NO_TOKENS : settings.resumeTokens
  return {
    areOn: settings.resumeTokens !== false,
    shedAfter: disconnectAfter,
    maxRounds,
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

/** `undefined`: there are no tasks. */
export function tasksSettings(settings: Settings): TasksSettings | undefined {
  const { tasks, maxStreams, maxStreamBytes } = settings
  if (tasks === false) return undefined
  const limits = {
    maxTasks: maxStreams,
    maxTaskBytes: maxStreamBytes,
    maxBytes: bytesOfCalls(settings)
  }
  return { ...tasks, tools: new Map(Object.entries(tasks.tools)), limits }
}

/** The quota of bodies that have not arrived completely, in bytes. */
export function bodyQuota({ maxBytes, maxBodyBytes }: Settings): Quota {
  const all = Math.max(maxBodyBytes, Math.floor(maxBytes / BODIES_SHARE))
  return new Quota(all, atMost(Math.max(maxBodyBytes, Math.floor(all / OWNER_SHARE))))
}

function bytesOfCalls({ maxBytes, maxStreamBytes }: Settings): number {
  return Math.max(maxStreamBytes, Math.ceil(maxBytes / ANSWERS_SHARE))
}
