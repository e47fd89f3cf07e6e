// What options may be: the checks that schemas are made of, and the words of their messages.
import { isObject } from '../protocol/json-rpc.js'
import { escaped } from '../protocol/printable.js'

/** What is wrong with a value. */
export interface Fault {
  /** To be read after the name of the option. */
  readonly text: string
  /** The value, to be read after that; absent where it must not be shown. */
  readonly given?: string | undefined
}

/** `undefined`: nothing is wrong. */
export type Check = (value: unknown) => Fault | undefined

/** A check for every option: the type does not compile without one. */
type Checks<Options> = { readonly [name in keyof Required<Options>]: Check }

export function must(isFine: (value: unknown) => boolean, text: string): Check {
  return value => (isFine(value) ? undefined : { text, given: shown(value) })
}

export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): Check {
  const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`
  return must(
    value => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most,
    `must be a whole number, ${range}`
  )
}

export function oneOf(...names: readonly string[]): Check {
  const listed = names.map(name => `'${name}'`).join(', ')
  return must(
    value => names.includes(value as string),
    `must be ${listed.replace(/, (?!.*, )/, ' or ')}`
  )
}

export function orNull(check: Check): Check {
  return value => {
    const fault = value === null ? undefined : check(value)
    return fault && { ...fault, text: `${fault.text}, or null` }
  }
}

export function orFalse(check: Check): Check {
  return value => (value === false ? undefined : check(value))
}

export const isFunction = must(value => typeof value === 'function', 'must be a function')

const SECRETS = 'must be a string of 16 characters or more, or a list of them'

/** It must never be shown. */
function isSecrets(value: unknown): Fault | undefined {
  const secrets: unknown[] = Array.isArray(value) ? value : [value]
  return secrets.length > 0 && secrets.every(isSecret) ? undefined : { text: SECRETS }
}

/** An option that must be there: of several secrets, the first one signs, and each is accepted. */
export const secretsOption = {
  isRequired: true,
  check: isSecrets,
  read: (value: string | readonly string[] = []): readonly string[] =>
    typeof value === 'string' ? [value] : [...value]
}

export function isSecret(value: unknown): boolean {
  return typeof value === 'string' && value.length >= 16
}

/**
 * Checks an object whose members are options of their own.
 *
 * @param otherwise the fault of a value that is not an object.
 */
export function membersOf<Options>(checks: Checks<Options>, otherwise: string): Check {
  return value => {
    if (!isObject(value)) return { text: otherwise, given: shown(value) }
    for (const [name, part] of Object.entries(value)) {
      if (!Object.hasOwn(checks, name))
        return { text: `must not have \`${name}\`${didYouMean(name, Object.keys(checks))}` }
      const fault = part === undefined ? undefined : checks[name as keyof Options](part)
      if (fault !== undefined) return { ...fault, text: `has a bad \`${name}\`: it ${fault.text}` }
    }
    return undefined
  }
}

/** Characters of a text that a message shows. */
const LONGEST_SHOWN = 40

export function shown(value: unknown): string {
  if (typeof value === 'string') return `'${escaped(value, LONGEST_SHOWN)}'`
  if (typeof value === 'function') return 'a function'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' && value !== null ? 'an object' : String(value)
}

/** The question after a name that is unknown; empty where it is like none of `names`. */
export function didYouMean(name: string, names: readonly string[]): string {
  const most = Math.min(3, Math.floor(name.length / 2))
  const near = names
    .filter(one => Math.abs(one.length - name.length) <= most)
    .map(one => ({ one, edits: editsBetween(one.toLowerCase(), name.toLowerCase()) }))
    .filter(({ edits }) => edits <= most)
    .sort((a, b) => a.edits - b.edits)[0]
  return near === undefined ? '' : `: did you mean \`${near.one}\`?`
}

/** How many letters are to be added, left out or replaced (Levenshtein). */
function editsBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next[j] = Math.min(
        (row[j] as number) + 1,
        (next[j - 1] as number) + 1,
        (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      )
    row = next
  }
  return row[b.length] as number
}
