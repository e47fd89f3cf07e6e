// Option `resumeTokens`: its meaning, its checks and its defaults.
import type { DurationHint } from '../features/resume-tokens/duration-hints.js'
import { isObject } from '../protocol/json-rpc.js'
import { membersOf, must, oneOf, orFalse, wholeNumber } from './checks.js'

/** Option `resumeTokens` of {@link McpStreamsOptions}. */
export interface ResumeTokensOptions {
  /**
   * Milliseconds after which a request without a result is answered with a token; a request may ask
   * for another time. Default: 10,000.
   */
  readonly after?: number | undefined
  /**
   * Who gets tokens. `asked`: requests that ask for them. `always`: all requests, as in the draft's
   * own text, which has no way to ask. Use it only if every client knows tokens: any other takes
   * the interim answer for its result. Default: `asked`.
   */
  readonly offer?: 'asked' | 'always' | undefined
  /**
   * The methods whose requests may get tokens; `'all'`: every method but `initialize`. Default:
   * `['tools/call']`.
   */
  readonly methods?: readonly string[] | 'all' | undefined
  /**
   * How long tools take, in milliseconds, by their names: added to `tools/list` as
   * `_meta.durationHint`. Default: none.
   */
  readonly hints?: Readonly<Record<string, DurationHint>> | undefined
}

/** The same with every default filled in. */
interface ResumeTokensValues {
  readonly after: number
  readonly offer: 'asked' | 'always'
  readonly methods: readonly string[] | 'all'
  readonly hints: Readonly<Record<string, DurationHint>>
}

export function resumeTokensSettings(
  options: false | ResumeTokensOptions = {}
): false | ResumeTokensValues {
  if (options === false) return false
  const { after = 10_000, offer = 'asked', methods = ['tools/call'], hints = {} } = options
  return {
    after,
    offer,
    methods: methods === 'all' ? methods : [...methods],
    hints: structuredClone(hints)
  }
}

export const checkResumeTokens = orFalse(
  membersOf<ResumeTokensOptions>(
    {
      after: wholeNumber(0),
      offer: oneOf('asked', 'always'),
      methods: must(
        value =>
          value === 'all' ||
          (Array.isArray(value) &&
            value.every(method => typeof method === 'string' && method !== '')),
        "must be a list of methods, or 'all'"
      ),
      hints: must(
        value => isObject(value) && Object.values(value).every(isDurationHint),
        'must be an object that has, by tool, `{ typical, max }` in milliseconds, 0 or more'
      )
    },
    'must be false, or an object with `after`, `offer`, `methods` and `hints`'
  )
)

function isDurationHint(value: unknown): boolean {
  if (!isObject(value)) return false
  return Object.entries(value).every(
    ([name, time]) =>
      ['typical', 'max'].includes(name) &&
      (time === undefined || (Number.isFinite(time) && (time as number) >= 0))
  )
}
