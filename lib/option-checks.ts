// The building blocks of option checks.
import { isObject } from './protocol/json-rpc.js'

/** Says what is wrong with a value, to be read after its name; `undefined`: nothing is. */
export type Check = (value: unknown) => string | undefined

/** A check for every option: the type does not compile without one. */
export type Checks<Options> = { readonly [name in keyof Required<Options>]: Check }

export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): Check {
  const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`
  return value =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most
      ? undefined
      : `must be a whole number, ${range}`
}

export function oneOf(...names: readonly string[]): Check {
  const listed = names.map(name => `'${name}'`).join(', ')
  const fault = `must be ${listed.replace(/, (?!.*, )/, ' or ')}`
  return value => (names.includes(value as string) ? undefined : fault)
}

export function orNull(check: Check): Check {
  return value => {
    const fault = value === null ? undefined : check(value)
    return fault === undefined ? undefined : `${fault}, or null`
  }
}

export function isFunction(value: unknown): string | undefined {
  return typeof value === 'function' ? undefined : 'must be a function'
}

/**
 * Checks an object whose members are options of their own.
 *
 * @param otherwise the fault of a value that is not an object.
 * @param hasOther the fault of an object with an unknown member, to be read before its name.
 */
export function membersOf<Options>(
  checks: Checks<Options>,
  otherwise: string,
  hasOther = 'must not have'
): Check {
  return value => {
    if (!isObject(value)) return otherwise
    for (const [name, part] of Object.entries(value)) {
      if (!Object.hasOwn(checks, name)) return `${hasOther} \`${name}\``
      const fault = part === undefined ? undefined : checks[name as keyof Options](part)
      if (fault !== undefined) return `has a bad \`${name}\`: it ${fault}`
    }
    return undefined
  }
}

export function orFalse(check: Check): Check {
  return value => (value === false ? undefined : check(value))
}
