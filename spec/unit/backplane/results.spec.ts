// What any instance finds of a stream that has ended with nobody there.

import { afterEach, expect, it } from '@jest/globals'
import { Envelopes } from '../../../lib/backplane/envelope.js'
import { KeptValues } from '../../../lib/backplane/kept-values.js'
import { Results } from '../../../lib/backplane/results.js'
import type { Stream } from '../../../lib/streams/stream.js'
import type { StreamRegistry } from '../../../lib/streams/stream-registry.js'
import { Hub } from '../../helpers/backplane/memory.js'
import { append, complete, newTable, open, progress } from '../streams/fakes.js'

const SECRET = 'the first secret of all'
const MEBIBYTE = 1024 * 1024
const tables: StreamRegistry[] = []

afterEach(() => {
  for (const table of tables.splice(0)) table.beginClosing(1)
})

/** A stream that has ended with so many events, its response among them. */
function ended(texts: readonly string[], init: object = {}): Stream {
  const { table } = newTable({ maxStreamBytes: 64 * MEBIBYTE, maxBytes: 64 * MEBIBYTE })
  tables.push(table)
  const { stream } = open(table, init)
  for (const text of texts) append(stream, progress(text))
  complete(stream)
  return stream
}

function instance(hub: Hub, secrets = [SECRET]) {
  const envelopes = new Envelopes(secrets)
  const kept = new KeptValues(hub.join(), envelopes)
  return { kept, results: new Results(kept, envelopes, 60_000) }
}

const textOf = (bytes: Uint8Array | undefined): string | undefined =>
  bytes && Buffer.from(bytes).toString()

it('is each event behind a cursor, whatever segments they lay in', async () => {
  const hub = new Hub()
  const stream = ended(Array.from({ length: 50 }, (_, i) => `${i} ${'x'.repeat(3000)}`))
  const all = Array.from({ length: 51 }, (_, i) => textOf(stream.log.read(i).bytes) as string)
  const { kept, results } = instance(hub)
  expect(results.save(stream)).toBe(true)
  await kept.whenSaved()
  const found = (await instance(hub).results.find(stream.id))!
  expect(found).toMatchObject({ id: stream.id, isEnded: true, first: 1, last: 51 })
  for (const cursor of [0, 1, 20, 49, 50, 51]) {
    const rest = textOf(found.after(cursor)) as string
    expect(rest.split('\n\n').length - 1).toBe(51 - cursor)
    if (cursor < 51) expect(all[cursor]?.startsWith(rest.slice(0, 3000))).toBe(true)
  }
})

it('has nothing to give behind a cursor whose next event had gone before', async () => {
  const hub = new Hub()
  const stream = ended(['one', 'two'])
  stream.log.clear()
  const { kept, results } = instance(hub)
  expect(results.save(stream)).toBe(true)
  await kept.whenSaved()
  const found = (await results.find(stream.id))!
  expect([found.after(0), found.after(1), textOf(found.after(3))]).toEqual([
    undefined,
    undefined,
    ''
  ])
})

it.each([
  ['of a session', { owner: 'one', sessionId: 'a session' }, 'a session'],
  ['of none', { owner: 'one', sessionId: undefined }, undefined]
])(
  'is its owner’s and its session’s alone, %s, by any of the secrets',
  async (_what, init, own) => {
    const hub = new Hub()
    const stream = ended([], init)
    const { kept, results } = instance(hub)
    results.save(stream)
    await kept.whenSaved()
    const found = (await instance(hub, ['a newer secret', SECRET]).results.find(stream.id))!
    expect([found.isOwnedBy('one'), found.isOwnedBy('two'), found.isOwnedBy('')]).toEqual([
      true,
      false,
      false
    ])
    expect([own, 'another', undefined].map(session => found.isOfSession(session))).toEqual([
      true,
      false,
      own === undefined
    ])
    expect(JSON.stringify([...hub.keys.values()].map(({ value }) => textOf(value)))).not.toMatch(
      /a session|"one"/
    )
  }
)

it('is nothing where there is too much of it, or another value has its name', async () => {
  const hub = new Hub()
  const { kept, results } = instance(hub)
  const large = ended(Array.from({ length: 5 }, () => 'x'.repeat(MEBIBYTE)))
  expect(results.save(large)).toBe(false)
  kept.keep('a task', { kind: 'task' }, [], 1000)
  await kept.whenSaved()
  expect(await results.find(large.id)).toBeUndefined()
  expect(await results.find('a task')).toBeUndefined()
})
