// A conversation: an endpoint and a client as lists of what they do, and what each of them sees.
//
//   conversation('a cut between two events', {
//     endpoint: [note(1), hold, note(2), result],
//     client: [post, take(2), cut, go, resume, end],
//     sees: [primer, 1, primer, 2, 'result', 'end']
//   })

import { expect, it } from '@jest/globals'
import { once } from 'node:events'
import type { McpStreamsStats } from '../../../lib/index.js'
import { talk, type Talk, type World } from './world.js'
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
  const { client, sees, hears, ids, counts, then } = spec
  const made = await talk(spec)
  // A timer of Node's own: the clock of the world may stand still.
  const late = once(AbortSignal.timeout(patience), 'abort').then(() => {
    throw new Error('waited in vain')
  })
  let why: unknown
  try {
    await Promise.race([made.plays(...client), late])
    for (const fault of made.runs.flatMap(({ faults }) => faults)) throw fault
    if (counts !== undefined) expect(made.stats()).toMatchObject(counts)
    await then?.(made)
  } catch (error) {
    made.isOver = true
    why = error
  }
  const lists: List[] = [
    ['the client sees', typeof sees === 'function' ? sees(made) : sees, made.sees(), made.words()],
    ['the endpoint hears', hears, made.hears()],
    ['the ids are', ids, made.ids()]
  ]
  const tables = lists.flatMap(compared)
  const wrong = tables.filter(({ isEqual }) => !isEqual)
  if (why === undefined && wrong.length === 0) return made
  const script = sideBySide(
    ['the endpoint', made.runs.flatMap(({ done }, n) => (n > 0 ? ['(again)', ...done] : done))],
    ['the client', made.done],
    why === undefined ? undefined : made.done.length - 1
  )
  const said = why instanceof Error ? why.message : String(why ?? 'something else was seen')
  const shown = (wrong.length > 0 ? wrong : tables).map(({ table }) => table)
  const failure = new Error([said, script, ...shown].join('\n\n'), { cause: why })
  if (why instanceof Error) failure.stack = `${failure.message}\n${why.stack ?? ''}`
  throw failure
}

type List = [
  name: string,
  expected: readonly unknown[] | undefined,
  seen: readonly unknown[],
  words?: readonly unknown[]
]

/** An expected object is compared with the whole message, all else with the word for it. */
function compared([name, expected, seen, words = seen]: List) {
  if (expected === undefined) return []
  const said = seen.map((one, n) => (typeof expected[n] === 'object' ? one : words[n]))
  const first = Array.from({ length: Math.max(expected.length, said.length) }).findIndex((_, n) => {
    try {
      expect(said[n]).toEqual(expected[n])
      return false
    } catch {
      return true
    }
  })
  const table = sideBySide(['expected', expected.map(shown)], [name, words.map(shown)], first)
  return [{ isEqual: first < 0, table }]
}

const shown = (value: unknown): string =>
  typeof value === 'object' ? JSON.stringify(value) : String(value)

type Column = [title: string, rows: readonly string[]]

/** Of long lists, so many rows are shown around the one that is marked, and of long rows so much. */
const AROUND = 12
const WIDEST = 50

/** Two lists beside each other; the row `marked`, from 0, is where they part. */
function sideBySide([one, left]: Column, [other, right]: Column, marked = -1): string {
  const cut = (text = ''): string => (text.length > WIDEST ? `${text.slice(0, WIDEST - 1)}…` : text)
  const width = Math.max(...[one, ...left].map(text => cut(text).length))
  const line = (n: number, first?: string, second?: string): string =>
    `${n === marked ? '>' : ' '} ${cut(first).padEnd(width)} | ${cut(second)}`.trimEnd()
  const rows = Array.from({ length: Math.max(left.length, right.length) }, (_, n) =>
    line(n, left[n], right[n])
  )
  const near = rows.filter((_, n) => marked < 0 || Math.abs(n - marked) <= AROUND)
  return [line(NaN, one, other), ...near].join('\n')
}

/** 1 to n. */
export const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1)

export { primer, talk, type Talk, type Wire, type World } from './world.js'
