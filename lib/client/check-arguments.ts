// Checks of the arguments and options of the client's functions.

/** What an option must be: a check, and words for its error message. */
export type Kind = readonly [isFine: (value: unknown) => boolean, words: string]

export const NUMBER = 'a number, 0 or more'

export const FUNCTION: Kind = [value => typeof value === 'function', 'a function']

export const SIGNAL: Kind = [
  value => typeof (value as Partial<AbortSignal> | null)?.addEventListener === 'function',
  'an AbortSignal'
]

/** Whether an option is a finite number, 0 or more, or is not given. */
export function isTime(value: unknown = 0): boolean {
  return Number.isFinite(value) && (value as number) >= 0
}

/**
 * The options with every default filled in. Each must be of its kind in `kinds`, or of the type of
 * its default; `idleTimeout` may also be `null`.
 *
 * @throws {TypeError} naming the function, the option and what it must be.
 */
export function parseOptions<T extends object>(
  caller: string,
  defaults: T,
  options: object = {},
  kinds: Readonly<Record<string, Kind>> = {}
): T {
  checkOptions(caller, options)
  const settings = { ...defaults } as Record<string, unknown>
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue
    if (!Object.hasOwn({ ...defaults, ...kinds }, name))
      throw new TypeError(`${caller}: unknown option \`${name}\``)
    const type = typeof settings[name]
    const isNumber = type === 'number'
    const mayBeNull = name === 'idleTimeout'
    const [isFine, words] = kinds[name] ?? [
      () =>
        typeof value === type ? !isNumber || (value as number) >= 0 : mayBeNull && value === null,
      (isNumber ? NUMBER : `a ${type}`) + (mayBeNull ? ', or null' : '')
    ]
    checkOption(caller, name, isFine(value), words)
    settings[name] = value
  }
  return settings as T
}

/** @throws {TypeError} naming the function, the option and what it must be. */
export function checkOption(caller: string, name: string, isFine: boolean, words: string): void {
  if (!isFine) throw new TypeError(`${caller}: option \`${name}\` must be ${words}`)
}

/** @throws {TypeError} naming the function and the argument that is not what it must be. */
export function checkCall(
  caller: string,
  [client, request, options]: readonly [unknown, unknown, unknown],
  member: string
): void {
  if (typeof (client as { request?: unknown } | null | undefined)?.request !== 'function')
    throw new TypeError(`${caller}: \`client\` must be a client of the SDK, connected`)
  if (typeof (request as Record<string, unknown> | null | undefined)?.[member] !== 'string')
    throw new TypeError(`${caller}: \`request\` must be an object with a string \`${member}\``)
  checkOptions(caller, options)
  const { signal } = options
  const [isSignal, words] = SIGNAL
  checkOption(caller, 'signal', signal === undefined || isSignal(signal), words)
}

function checkOptions(
  caller: string,
  options: unknown
): asserts options is Readonly<Record<string, unknown>> {
  if (typeof options !== 'object' || options === null)
    throw new TypeError(`${caller}: options must be an object`)
}
