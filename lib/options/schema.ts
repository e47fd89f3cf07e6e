// What a table of options is: for each one its unit, its check and its default. From it the
// arguments of a function are checked, and the settings are made that the code reads.
import { type Check, didYouMean } from './checks.js'

/** One option. The members of `Options` that its default depends on are given to `read`. */
type Option<Value, Options> = {
  readonly unit?: 'milliseconds' | 'seconds' | 'bytes' | undefined
  readonly check: Check
  /** A value is wanted: the check is to refuse `undefined`. */
  readonly isRequired?: boolean | undefined
} & (
  | { readonly default: Value }
  | { readonly read: (value: Value | undefined, options: Options) => unknown }
)

/** Does not compile without an entry for every option. */
export type Schema<Options> = {
  readonly [name in keyof Required<Options>]: Option<Options[name], Options>
}

/** What the code reads of options: each with its default. */
export type SettingsOf<Table, Options> = {
  readonly [name in keyof Table & keyof Options]: Table[name] extends {
    readonly read: (...args: never[]) => infer Setting
  }
    ? Setting
    : Table[name] extends { readonly default: undefined }
      ? Options[name]
      : Exclude<Options[name], undefined>
}

/**
 * Checks the options of a function and fills in the defaults. `undefined` means absent.
 *
 * @param of the function, as messages name it.
 * @param elsewhere what is said of names that other libraries have for an option, or for something
 * else.
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function settingsFrom<Options extends object, Table extends Schema<Options>>(
  of: string,
  table: Table & Schema<Options>,
  options: Options,
  elsewhere: ReadonlyMap<string, string> = new Map()
): SettingsOf<Table, Options> {
  if (typeof options !== 'object' || (options as object | null) === null)
    throw new TypeError(`${of}: options must be an object`)
  const names = Object.keys(table) as (keyof Options & string)[]
  for (const name of Object.keys(options))
    if (!Object.hasOwn(table, name))
      throw new TypeError(
        `${of}: unknown option \`${name}\`${elsewhere.get(name) ?? didYouMean(name, names)}`
      )
  for (const name of names) {
    const { check, unit, isRequired }: Option<Options[typeof name], Options> = table[name]
    const value = options[name]
    const fault = value === undefined && isRequired !== true ? undefined : check(value)
    if (fault === undefined) continue
    const { text, given } = fault
    const inUnit = unit === undefined || given === undefined ? '' : ` (${unit})`
    const was = given === undefined ? '' : `, not ${given}`
    throw new TypeError(`${of}: option \`${name}\` ${text}${inUnit}${was}`)
  }
  const settings: Record<string, unknown> = {}
  for (const name of names) {
    const entry: Option<Options[typeof name], Options> = table[name]
    const value = options[name]
    if ('read' in entry) settings[name] = entry.read(value, options)
    else settings[name] = value === undefined ? entry.default : value
  }
  return settings as SettingsOf<Table, Options>
}
