// Writes a changed value into its JSON text: what has not changed keeps its bytes.
import { isObject, type Message } from './json-rpc.js'
import { endOfValue, type Part, partsOf, skipSpace } from './json-text.js'

/**
 * What is identical (`===`) is skipped, so copy along the path of a change; `undefined` removes.
 */
export function spliceJson(text: string, before: unknown, after: unknown): string {
  return new Splice(text).apply(before, after)
}

/** A message in a body, and the JSON text that it was parsed from. */
export interface WrittenMessage {
  readonly message: Message
  readonly text: string
}

/** The messages of a JSON text; none if it is not JSON. */
export function writtenMessages(text: string): readonly WrittenMessage[] {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return []
  }
  if (isObject(body)) return [{ message: body, text }]
  if (!Array.isArray(body)) return []
  return partsOf(text).flatMap(({ valueAt, end }, i) => {
    const message: unknown = (body as unknown[])[i]
    return isObject(message) ? [{ message, text: text.slice(valueAt, end) }] : []
  })
}

/** The members of the object that a JSON text contains, with their values as they are written. */
export function memberTexts(text: string): ReadonlyMap<string, string> {
  return new Map(membersIn(text).map(({ key, valueAt, end }) => [key, text.slice(valueAt, end)]))
}

/** None where the text is another value than an object. */
function membersIn(text: string): readonly Part[] {
  return /^\s*{/.test(text) ? partsOf(text) : []
}

/** The text of an object with members replaced, added, or removed where they are `undefined`. */
export function withMembers(
  text: string,
  members: Readonly<Record<string, string | undefined>>
): string {
  const kept = membersIn(text).flatMap(({ key, from, end }) =>
    Object.hasOwn(members, key) ? [] : [text.slice(from, end)]
  )
  const added = Object.entries(members).flatMap(([name, value]) =>
    value === undefined ? [] : [`${JSON.stringify(name)}:${value}`]
  )
  return `{${[...kept, ...added].join()}}`
}

type Members = Readonly<Record<string, unknown>>

class Splice {
  readonly #text: string
  readonly #pieces: string[] = []
  /** All text before this offset has been copied or replaced. */
  #done = 0

  constructor(text: string) {
    this.#text = text
  }

  apply(before: unknown, after: unknown): string {
    this.#change(skipSpace(this.#text, 0), before, after)
    this.#pieces.push(this.#text.slice(this.#done))
    return this.#pieces.join('')
  }

  #change(at: number, before: unknown, after: unknown): void {
    if (before === after) return
    if (isObject(before) && isObject(after)) return this.#changeMembers(at, before, after)
    if (Array.isArray(before) && Array.isArray(after) && before.length === after.length)
      return this.#changeElements(at, before, after)
    this.#replace(at, endOfValue(this.#text, at), JSON.stringify(after))
  }

  #changeElements(at: number, before: readonly unknown[], after: readonly unknown[]): void {
    partsOf(this.#text, at).forEach(({ valueAt }, i) => this.#change(valueAt, before[i], after[i]))
  }

  #changeMembers(at: number, before: Members, after: Members): void {
    const parts = partsOf(this.#text, at)
    // `JSON.parse` has taken the last of a name that occurs twice; other parsers take the first.
    const last = new Map(parts.map(({ key }, i) => [key, i]))
    let hasKept = false
    // A removed member takes a comma with it: the one before if a member is kept there.
    parts.forEach(({ from, key, valueAt, end }, i) => {
      const value = last.get(key) === i ? own(after, key) : undefined
      if (value !== undefined) {
        hasKept = true
        this.#change(valueAt, before[key], value)
      } else if (hasKept) this.#replace(parts[i - 1]?.end ?? from, end, '')
      else this.#replace(from, parts[i + 1]?.from ?? end, '')
    })
    const added = Object.keys(after).filter(
      key => !Object.hasOwn(before, key) && after[key] !== undefined
    )
    if (added.length === 0) return
    const text = added.map(key => `${JSON.stringify(key)}:${JSON.stringify(after[key])}`).join()
    const end = parts.at(-1)?.end ?? at + 1
    this.#replace(end, end, hasKept ? `,${text}` : text)
  }

  #replace(from: number, to: number, text: string): void {
    this.#pieces.push(this.#text.slice(this.#done, from), text)
    this.#done = to
  }
}

function own(object: Members, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined
}
