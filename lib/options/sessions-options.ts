// Option `sessions`: its checks and its defaults.
import type { SessionsOptions, SessionsSettings } from '../features/sessions/surviving-sessions.js'
import { type Fault, isSecrets, membersOf, must, wholeNumber } from './checks.js'

const A_DAY = 24 * 60 * 60 * 1000

export function sessionsSettings({
  survive,
  secret = [],
  lifetime = A_DAY
}: Partial<SessionsOptions> = {}): SessionsSettings | undefined {
  if (survive !== true) return undefined
  return { secrets: typeof secret === 'string' ? [secret] : [...secret], lifetime }
}

const checkParts = membersOf<SessionsOptions>(
  {
    survive: must(value => typeof value === 'boolean', 'must be true or false'),
    secret: isSecrets,
    lifetime: wholeNumber(1)
  },
  'must be an object with `survive`, `secret` and `lifetime`'
)

export function checkSessions(value: unknown): Fault | undefined {
  if (value === 'forward' || value === 'local')
    return { text: `has moved to the backplane: redisBackplane({ sessions: '${value}' })` }
  const fault = checkParts(value)
  // What was given may be the secret.
  if (fault !== undefined) return { text: fault.text }
  const { survive, secret } = value as Partial<SessionsOptions>
  if (survive === undefined) return { text: 'must have `survive`, true or false' }
  if (!survive || secret !== undefined) return undefined
  return { text: `must have a \`secret\`: it ${isSecrets(undefined)?.text}` }
}
