// A conversation: an endpoint and a client as lists of what they do, and what each of them sees.
//
//   conversation('a cut between two events', {
//     endpoint: [note(1), hold, note(2), result],
//     client: [post, take(2), cut, go, resume, end],
//     sees: [primer, 1, primer, 2, 'result', 'end']
//   })

import { expect, it } from '@jest/globals'
import { setTimeout as setRealTimeout, clearTimeout as clearRealTimeout } from 'node:timers'
import type { McpStreamsStats } from '../../../lib/index.js'
import { sideBySide } from './report.js'
import { talk, wordFor, type Talk, type World } from './world.js'
import type { Word } from './client.js'

export interface Conversation extends World {
  client: readonly Word[]
  /**
   * What the client sees, connection by connection: numbers of notes, words (`wordFor`), statuses
   * other than 200, how a connection ended; an object stands for a whole message.
   */
  sees?: readonly unknown[] | ((talk: Talk) => readonly unknown[])
  /** What comes to the endpoint, in order, and `close` behind what it was not allowed to end. */
  hears?: readonly string[]
  /** Event ids of all that the client has read, without their stream's. */
  ids?: readonly unknown[]
  /** Of `stats()`, in the end. */
  counts?: Partial<McpStreamsStats>
  /** Whatever else holds in the end. */
  then?: (talk: Talk) => unknown
}

/** A spec that is a conversation. */
export function conversation(title: string, spec: Conversation): void {
  it(title, async () => void (await play(spec)))
}

interface Each {
  <Row extends [unknown, ...unknown[]]>(rows: readonly Row[]): Titled<Row>
  <Value>(rows: readonly Value[]): Titled<[value: Value]>
}
type Titled<Row extends unknown[]> = (title: string, spec: (...row: Row) => Conversation) => void

/** One for each row of a table, as `it.each`. */
conversation.each = ((rows: readonly unknown[]): Titled<unknown[]> =>
  (title, spec) =>
    it.each(rows)(title, async (...row: unknown[]) => void (await play(spec(...row))))) as Each

/** Longer than any conversation takes, and shorter than Jest waits: who hangs is named. */
const PATIENCE = Number(process.env['PATIENCE'] ?? 100_000)

/** Plays a conversation in a spec that has more to say about it. */
export async function play(spec: Conversation, patience = PATIENCE): Promise<Talk> {
  const made = await talk(spec)
  await converse(made, spec, patience)
  return made
}

/** Goes on with a talk. */
export async function converse(
  made: Talk,
  { client, sees, hears, ids, counts, then }: Omit<Conversation, keyof World>,
  patience = PATIENCE
): Promise<void> {
  const lists: [name: string, expected: readonly unknown[] | undefined, seen: () => unknown[]][] = [
    ['the client sees', typeof sees === 'function' ? [] : sees, () => made.sees()],
    ['the endpoint hears', hears, () => made.hears()],
    ['the ids are', ids, () => made.ids()]
  ]
  let timer: ReturnType<typeof setRealTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setRealTimeout(() => reject(new Error('waited in vain')), patience)
  })
  let why: unknown
  try {
    for (const word of client) {
      made.done.push(word.name || String(word).replace(/\s+/g, ' '))
      await Promise.race([word(made), late])
    }
    const [fault] = made.runs.flatMap(({ faults }) => faults)
    if (fault !== undefined) throw fault
    if (counts !== undefined) expect(made.stats()).toMatchObject(counts)
    await then?.(made)
  } catch (error) {
    why = error
  } finally {
    clearRealTimeout(timer)
  }
  if (typeof sees === 'function') lists[0]![1] = sees(made)
  const compared = lists.flatMap(([name, expected, seen]) =>
    expected === undefined ? [] : [{ name, expected, seen: seen() }]
  )
  const tokens = made.tokens()
  const word = (message: unknown): unknown => wordFor(message, tokens)
  const wrong = compared.filter(({ expected, seen }) => firstDifference(expected, seen, word) >= 0)
  if (why === undefined && wrong.length === 0) return
  const script = sideBySide(
    ['the endpoint', made.runs.flatMap(({ done }, n) => (n > 0 ? ['(again)', ...done] : done))],
    ['the client', made.done],
    why === undefined ? undefined : made.done.length - 1
  )
  const tables = (wrong.length > 0 ? wrong : compared).map(({ name, expected, seen }) =>
    sideBySide(
      ['expected', expected.map(shown)],
      [name, seen.map(one => shown(word(one)))],
      firstDifference(expected, seen, word)
    )
  )
  const said = why instanceof Error ? why.message : String(why ?? 'something else was seen')
  const failure = new Error([said, script, ...tables].join('\n\n'), { cause: why })
  if (why instanceof Error) failure.stack = `${failure.message}\n${why.stack ?? ''}`
  throw failure
}

const shown = (value: unknown): string =>
  typeof value === 'object' ? JSON.stringify(value) : String(value)

/** An expected object is compared with the whole message, all else with the word for it. */
function firstDifference(
  expected: readonly unknown[],
  seen: readonly unknown[],
  word: (message: unknown) => unknown
): number {
  const isEqual = (one: unknown, other: unknown): boolean => {
    if (typeof one !== 'object') return one === word(other)
    try {
      expect(other).toEqual(one)
      return true
    } catch {
      return false
    }
  }
  const { length } = expected.length > seen.length ? expected : seen
  return Array.from({ length }).findIndex(
    (_, n) => n >= expected.length || n >= seen.length || !isEqual(expected[n], seen[n])
  )
}

/** 1 to n. */
export const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1)

export { primer, talk, type Talk, type Wire, type World } from './world.js'
