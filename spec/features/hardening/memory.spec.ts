// Whoever is told of something in the middle of a write, or keeps what was written, finds no bytes
// of another client.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { OutgoingMessage, ServerResponse } from 'node:http'
import { append, deliver, FakeReader, newTable, open, progress } from '../../unit/streams/fakes.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeLater } from '../../helpers/listen.js'
import { notification, request, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { call, stopTheClock } from '../limits/setup.js'

const note = (data: string) => notification('notifications/message', { level: 'info', data })
const notesOf = (id: string, count: number, size: number) =>
  Array.from({ length: count }, (_, n) => note(`${n + 1}`.padEnd(size, id)))

/**
 * Writes so many notes, all unlike each other, and waits for `drain`; a call named `log` is left
 * open.
 */
const endpointOf = (count: number, size: number) =>
  rawEndpoint(async rawCall => {
    const { id } = rawCall.message
    if (id === 'log') return rawCall.open()
    for (const message of notesOf(id, count, size))
      if (!rawCall.emit(message)) await once(rawCall.res, 'drain')
    rawCall.result()
  })

it('a subscriber that writes to another response mixes no bytes', async () => {
  const endpoint = endpointOf(60, 10_000)
  const { url } = await serve(endpoint, { maxStreamBytes: 200_000 })
  const log = await call(url, 'log')
  const { emit } = await endpoint.calls.nth(1)
  let evictions = 0
  const writeToLog = () => {
    if (evictions++ === 0) emit(note('L'.repeat(15_000)))
  }
  subscribe('mcp-streams:evicted', writeToLog)
  closeLater(() => unsubscribe('mcp-streams:evicted', writeToLog))
  const response = await call(url, 'a')
  expect(await response.ended).toBe('end')
  expect(evictions).toBeGreaterThan(0)
  expect(response.messages()).toEqual([...notesOf('a', 60, 10_000), result('a', {})])
  expect(await log.nextMessage()).toEqual(note('L'.repeat(15_000)))
})

describe.each([
  ['ServerResponse', ServerResponse.prototype],
  ['OutgoingMessage', OutgoingMessage.prototype]
])('a write that is patched on the prototype of %s', (_name, prototype) => {
  const own = Object.getOwnPropertyDescriptor(prototype, 'write')
  const kept: { chunk: Uint8Array; copy: Buffer }[] = []

  beforeAll(() => {
    const { write } = prototype
    prototype.write = function (this: OutgoingMessage, ...args: unknown[]) {
      const [chunk] = args
      if (chunk instanceof Uint8Array && /"[^"]*x{9}/.test(Buffer.from(chunk).toString('latin1')))
        kept.push({ chunk, copy: Buffer.from(chunk) })
      return Reflect.apply(write, this, args)
    } as typeof write
  })
  afterAll(() => {
    if (own === undefined) delete (prototype as { write?: unknown }).write
    else Object.defineProperty(prototype, 'write', own)
  })

  it('may keep the chunks it has seen: they stay what they were', async () => {
    const { url } = await serve(endpointOf(60, 30_000), { maxStreamBytes: 300_000 })
    for (const id of ['x'.repeat(9), 'y']) await (await call(url, id)).ended
    expect(kept.length).toBeGreaterThan(3)
    expect(kept.filter(({ chunk, copy }) => !copy.equals(chunk))).toHaveLength(0)
  })
})

it('requests of the server are forgotten when their events are gone, but for a hundred that may be answered still', () => {
  stopTheClock()
  const { table } = newTable({ maxStreamBytes: 100_000 })
  const { stream } = open(table)
  stream.attach(new FakeReader(), 0)
  for (let id = 1; id <= 2000; id++) {
    append(stream, request(`request ${id}`, 'ping', { of: 'x'.repeat(1000) }))
    deliver(stream, stream.log.last - 1)
  }
  expect(stream.openRequests.size).toBe(stream.log.last - stream.log.first + 1 + 100)
  expect(stream.openRequests.size).toBeLessThan(300)
  expect(append(stream, progress('still alive'))).toBe(true)
})
