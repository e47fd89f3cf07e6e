// The entry point `express-mcp-streams/sessions`: sessions that outlive their process.
// So that what it shares with the middleware is built as one file: each takes heap of its own.
import '../../index.js'
import { secretsOption, wholeNumber } from '../../options/checks.js'
import { partOf, type SessionsPart } from '../../options/part.js'
import { type Schema, settingsFrom } from '../../options/schema.js'
import type { FeatureCode } from '../../endpoint/feature.js'
import { SurvivingSessions } from './surviving-sessions.js'

export type { SessionsPart } from '../../options/part.js'

/** Options of {@link sessions}. */
export interface SessionsOptions {
  /**
   * The secret that session ids are sealed with, of 16 characters or more, the same in all
   * processes of a service. In a list, the first one seals and all are accepted.
   */
  readonly secret: string | readonly string[]
  /**
   * Milliseconds after its `initialize` for which a session is begun again. Default: 86,400,000, a
   * day.
   */
  readonly lifetime?: number | undefined
  /**
   * Milliseconds without a request, a listen channel or a running call after which a session is
   * ended at the endpoint by a `DELETE` in its client's name. When the client comes back, the
   * session is begun again. Default: none is ended.
   */
  readonly idle?: number | undefined
}

const A_DAY = 24 * 60 * 60 * 1000

const OPTIONS = {
  secret: secretsOption,
  lifetime: { unit: 'milliseconds', check: wholeNumber(1), default: A_DAY },
  idle: { unit: 'milliseconds', check: wholeNumber(1000), read: value => value }
} satisfies Schema<SessionsOptions>

/**
 * Sessions outlive the process that began them, and the endpoint's. The `Mcp-Session-Id` that a
 * client gets has sealed in it what it takes to begin the session again. When the endpoint refuses
 * a request as it does not know the session, it is sent `initialize` and
 * `notifications/initialized` with the headers of that request, and then the request once more.
 * Only the owner of a session can use its id: option `owner` must name a client by the same string
 * in all processes, whatever token it has. For option `sessions` of `mcpStreams`.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function sessions(options: SessionsOptions): SessionsPart {
  const { secret: secrets, lifetime, idle } = settingsFrom('sessions', OPTIONS, options)
  const code: FeatureCode = (parts, { maxEntries }) =>
    new SurvivingSessions({ secrets, lifetime, idle }, parts, maxEntries)
  return partOf('sessions', code)
}
