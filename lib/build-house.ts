// What the rooms of one instance share, built from its settings.
import { label } from './core/event-id.js'
import { Sessions } from './core/sessions.js'
import { StreamTable } from './core/stream-table.js'
import { debug, publish } from './diagnostics.js'
import { Connections } from './http/connections.js'
import type { House } from './http/house.js'
import { KeyedCalls } from './http/idempotency.js'
import { ResumeTokens } from './methods/resume-tokens.js'
import type { Settings } from './options.js'

/** What the house tells its instance. */
export interface HouseListener {
  readonly count: House['count']
  readonly report: (error: Error, streamId: string) => void
}

/** Reconnection time of a disconnect at will, in milliseconds: the highest, and the one where `retry` is off. */
export const AT_WILL_RETRY = 1000
/** Answers in JSON that are kept for a repeated request may take this part of what streams may take. */
const ANSWERS_SHARE = 8

export function buildHouse(settings: Settings, listener: HouseListener): House {
  const limits = {
    window: settings.window,
    maxStreamBytes: settings.maxStreamBytes,
    unsent: settings.maxUnsent,
    maxEventBytes: settings.maxBytes,
    maxBytes: settings.maxBytes,
    maxStreams: settings.maxStreams,
    handoffQuiet: settings.handoffQuiet,
    handoffAfter: settings.handoffAfter,
    abandonAfter: Math.ceil(settings.resumeInterval.max * 1000)
  }
  const table = new StreamTable(limits, (name, stream, error) => {
    debug('stream %s %s%s', label(stream), name, error === undefined ? '' : `: ${error.message}`)
    publish(name, stream, error?.code)
    if (error !== undefined) listener.report(error, stream.id)
  })
  const connections = new Connections({
    retry: settings.retry,
    retryAtWill: Math.max(
      Math.min(settings.retry ?? AT_WILL_RETRY, AT_WILL_RETRY),
      Math.round(settings.resumeInterval.min * 1000)
    ),
    keepAlive: settings.keepAlive,
    disconnectAfter: settings.disconnectAfter,
    debug
  })
  const calls = new KeyedCalls({
    maxCalls: settings.maxStreams,
    window: Math.max(1, settings.window, limits.abandonAfter),
    maxBytes: Math.ceil(settings.maxBytes / ANSWERS_SHARE),
    abandonAfter: () => table.abandonAfter
  })
  return {
    table,
    sessions: new Sessions(settings.maxStreams),
    connections,
    calls,
    isClosing: false,
    hasWarnedOfIds: false,
    primer: settings.primer,
    handoff: settings.handoff,
    notifications: settings.notifications,
    resumeInterval: settings.resumeInterval,
    maxEventBytes: settings.maxBytes,
    allowedOrigins: settings.allowedOrigins,
    debug,
    count: listener.count
  }
}

/** The room for resume tokens; `undefined` where they are off. */
export function buildResumeTokens(instance: object, house: House, settings: Settings): ResumeTokens | undefined {
  const { resumeTokens, maxStreams, maxStreamBytes, maxBytes, window, resumeInterval } = settings
  if (resumeTokens === false) return undefined
  return new ResumeTokens(instance, house, {
    after: resumeTokens.after,
    methods: new Set(resumeTokens.methods),
    hints: new Map(Object.entries(resumeTokens.hints)),
    limits: {
      maxCalls: maxStreams,
      maxCallBytes: maxStreamBytes,
      maxBytes: Math.max(maxStreamBytes, Math.ceil(maxBytes / ANSWERS_SHARE)),
      window,
      abandonAfter: Math.ceil(resumeInterval.max * 1000)
    }
  })
}
