// What the rooms of one instance share, built from its settings.
import { createHash } from 'node:crypto'
import { label } from './protocol/event-id.js'
import { Sessions } from './streams/sessions.js'
import { StreamRegistry } from './streams/stream-registry.js'
import { debug, publish } from './diagnostics.js'
import { BodyBudget } from './endpoint/body-budget.js'
import { Connections } from './endpoint/connections.js'
import type { InstanceParts } from './endpoint/instance-parts.js'
import { ProgressReports } from './endpoint/progress-reports.js'
import { SlowAnswers } from './endpoint/slow-answers.js'
import { ListenRules } from './endpoint/listen-rules.js'
import { OwnIds } from './endpoint/own-ids.js'
import { IdempotencyStore } from './endpoint/keyed-calls.js'
import { ResumeTokens } from './calls/resume-tokens.js'
import { Tasks } from './calls/tasks/tasks.js'
import type { Settings } from './options.js'

/** What the house tells its instance. */
export interface PartsListener {
  readonly count: InstanceParts['count']
  readonly report: (error: Error, streamId: string) => void
}

/**
 * Reconnection time of a disconnect at will, in milliseconds: the highest, and the one where
 * `retry` is off.
 */
const AT_WILL_RETRY = 1000
/**
 * Answers in JSON that are kept for a repeated request may take this part of what streams may take.
 */
const ANSWERS_SHARE = 8

export function buildParts(settings: Settings, listener: PartsListener): InstanceParts {
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
  const sessions = new Sessions(settings.maxStreams)
  const table = new StreamRegistry(
    limits,
    (name, stream, error) => {
      debug('stream %s %s%s', label(stream), name, error === undefined ? '' : `: ${error.message}`)
      publish(name, stream, error?.code)
      if (error !== undefined) listener.report(error, stream.id)
    },
    sessions
  )
  const connections = new Connections(
    {
      retry: settings.retry,
      retryAtWill: Math.max(
        Math.min(settings.retry ?? AT_WILL_RETRY, AT_WILL_RETRY),
        Math.round(settings.resumeInterval.min * 1000)
      ),
      keepAlive: settings.keepAlive,
      disconnectAfter: settings.disconnectAfter,
      debug
    },
    limits.abandonAfter
  )
  const calls = new IdempotencyStore({
    maxCalls: settings.maxStreams,
    window: Math.max(1, settings.window, limits.abandonAfter),
    maxBytes: Math.ceil(settings.maxBytes / ANSWERS_SHARE),
    abandonAfter: () => table.abandonAfter,
    onFull: () => {
      debug('call under a key given up: its client has gone, and as much is held already as may be')
      listener.count('refused', undefined, 'full')
    }
  })
  return {
    table,
    sessions,
    connections,
    calls,
    sessionEnded: new Set(),
    ownIds: new OwnIds(),
    listenRules: new ListenRules(),
    slow: new SlowAnswers({ ...settings, maxSessions: settings.maxStreams }),
    progress: settings.progress === false ? undefined : new ProgressReports(settings.progress),
    bodies: bodyBudget(settings),
    maxBodyBytes: settings.maxBodyBytes,
    isClosing: false,
    hasWarnedOfIds: false,
    primer: settings.primer,
    handoff: settings.handoff,
    notifications: settings.notifications,
    resumeInterval: settings.resumeInterval,
    maxEventBytes: settings.maxBytes,
    maxAnswerBytes: settings.maxStreamBytes,
    allowedOrigins: settings.allowedOrigins,
    hash: text => createHash('sha256').update(text).digest('base64url'),
    debug,
    count: listener.count
  }
}

const NO_TOKENS = { after: 0, offer: 'asked', methods: [], hints: {} } as const

/** The room for resume tokens; `undefined` where they are off. */
export function buildResumeTokens(
  instance: object,
  parts: InstanceParts,
  settings: Settings
): ResumeTokens | undefined {
  const {
    resumeTokens,
    disconnectAfter,
    maxStreams,
    maxStreamBytes,
    maxBytes,
    window,
    resumeInterval
  } = settings
  if (resumeTokens === false && disconnectAfter === null) return undefined
  const tokens = resumeTokens === false ? NO_TOKENS : resumeTokens
  return new ResumeTokens(instance, parts, {
    areOn: resumeTokens !== false,
    shedAfter: disconnectAfter,
    after: tokens.after,
    offer: tokens.offer,
    methods: tokens.methods === 'all' ? 'all' : new Set(tokens.methods),
    hints: new Map(Object.entries(tokens.hints)),
    limits: {
      maxCalls: maxStreams,
      maxCallBytes: maxStreamBytes,
      maxBytes: Math.max(maxStreamBytes, Math.ceil(maxBytes / ANSWERS_SHARE)),
      window,
      abandonAfter: Math.ceil(resumeInterval.max * 1000)
    }
  })
}

/** Tasks; `undefined` where they are off. */
export function buildTasks(
  instance: object,
  parts: InstanceParts,
  { tasks, maxStreams, maxStreamBytes, maxBytes }: Settings
): Tasks | undefined {
  if (tasks === false) return undefined
  const limits = {
    maxTasks: maxStreams,
    maxTaskBytes: maxStreamBytes,
    maxBytes: Math.max(maxStreamBytes, Math.ceil(maxBytes / ANSWERS_SHARE))
  }
  return new Tasks(instance, parts, {
    ...tasks,
    tools: new Map(Object.entries(tasks.tools)),
    limits
  })
}

/**
 * Bodies that are read ahead may take these parts of what streams may take, all and one owner's;
 * but one always may be read.
 */
const BODIES_SHARE = 4
const OWNER_SHARE = 4

function bodyBudget({ maxBytes, maxBodyBytes }: Settings): BodyBudget {
  const all = Math.max(maxBodyBytes, Math.floor(maxBytes / BODIES_SHARE))
  return new BodyBudget({ all, owner: Math.max(maxBodyBytes, Math.floor(all / OWNER_SHARE)) })
}
