// A stream holds so much and no more, however slowly its client reads: the endpoint waits, or the
// call fails explicitly.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { getDefaultHighWaterMark } from 'node:stream'
import { currentStream } from '../../../lib/index.js'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { counts, cut, drop, end, go, on } from '../../helpers/talk/client.js'
import { pass, post, resume, until, type Word } from '../../helpers/talk/client.js'
import { hold, noteOf, open, result } from '../../helpers/talk/endpoint.js'
import { type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, talk, upTo, type Talk } from '../../helpers/talk/index.js'

const MAX_STREAM_BYTES = 256 * 1024
const EVENT = 8 * 1024
/** How many notes of that size reach the limit. */
const KEPT = Math.ceil(MAX_STREAM_BYTES / (EVENT + 150))
/**
 * What a stream may hold: its limit, the event that reached it, and what else is in its first
 * segment, of which a part has been read, and in its last one, of which a part is empty.
 */
const MOST_HELD = MAX_STREAM_BYTES + EVENT + 2 * 64 * 1024
/**
 * What a connection holds besides: a response and its socket queue as much as Node lets them, which
 * is four times as much from Node 22 on.
 */
const MOST_QUEUED = 2 * getDefaultHighWaterMark(false) + 16 * 1024
const LIMITED = { options: { maxStreamBytes: MAX_STREAM_BYTES } }

const holdsLess =
  (bytes: number): Word =>
  made =>
    expect(made.stats().bytes).toBeLessThan(bytes)
const pause: Word = ({ response }) => void response.pause()
/** Reads on, what has waited. */
const read: Word = ({ response }) => void response.resume()
/** The numbers that have come, and what came behind them. */
const numbersOf = (response: OpenStream): unknown[] =>
  response.messages().map(({ params, error }) => {
    if (params === undefined) return error === undefined ? 'result' : error.data.reason
    return Number.parseInt(params.data, 10)
  })

describe('an endpoint that waits for `drain`', () => {
  let written = 0
  let isDone = false
  /** Writes so many notes, and waits whenever it is told to. */
  const politely =
    (total: number): Line =>
    async ({ res, emit, closed, ...call }) => {
      const isClosed = () => res.destroyed || call.isClosed
      isDone = false
      for (written = 1; written <= total && !isClosed(); written++)
        if (!emit(noteOf(written, EVENT))) await Promise.race([once(res, 'drain'), closed])
      written--
      isDone = true
    }
  const flood = (total: number) => ({
    ...LIMITED,
    endpoint: [[open, hold, politely(total), result], [result]]
  })
  const begins: Word = ({ runs }) => void runs[0]!.go()
  /**
   * Waits until an endpoint writes no more: so many other calls go through meanwhile that it would
   * have had its turn.
   */
  const untilItWaits: Word = async made => {
    for (let before = -1; before !== written;) {
      before = written
      for (const id of upTo(10)) {
        await made.plays(post({ id: `other ${id}` }), end)
        expect(numbersOf(made.wires.pop()!.response)).toEqual(['result'])
      }
    }
  }
  const isThrough = until(() => isDone)

  conversation(
    'is not told to wait while the client is away: what comes beyond the limit fails its call, and the client gets the rest',
    {
      ...flood(200),
      client: [
        ...[post, cut, begins, isThrough, counts({ live: 0, connections: 0 })],
        ...[() => expect(written).toBe(KEPT + 1), holdsLess(MOST_HELD + MOST_QUEUED)],
        ...[resume({ after: null }), end, resume]
      ],
      sees: [primer, ...upTo(KEPT), 'error overflow', 'end', '204']
    }
  )

  let before: number
  conversation('goes on some time after its client has left while it waits', {
    ...{ ...flood(3000), clock: 'stopped' },
    client: [
      ...[post, pause, begins, untilItWaits, () => void (before = written), cut, untilItWaits],
      ...[() => expect(written).toBe(before), counts({ live: 1 }), pass(10_000), isThrough],
      () => expect(written).toBeLessThan(before + MAX_STREAM_BYTES / EVENT + 2)
    ],
    counts: { live: 0 }
  })

  let stream = currentStream()
  conversation('waits for a slow client that is disconnected, and comes back for everything', {
    options: { ...LIMITED.options, retry: 1 },
    prefer: 'rel=stream',
    endpoint: [[() => (stream = currentStream()), ...flood(3000).endpoint[0]!], [result]],
    client: [
      ...[post, pause, begins, untilItWaits, () => stream!.disconnect(), untilItWaits],
      ...[() => expect(written).toBeLessThan(3000), read, end, resume, end]
    ],
    then: ({ wires: [first, rest] }) => {
      const all = [first!, rest!].flatMap(({ response }) => numbersOf(response))
      expect(all).toEqual([...upTo(3000), 'result'])
      expect([first!.ending, rest!.messages.length > 1]).toEqual(['end', true])
    }
  })

  conversation(
    'waits at its limit when nobody has ever read, and the client then gets everything',
    {
      ...flood(3000),
      client: [
        ...[post, pause, begins, untilItWaits, () => expect(written).toBeLessThan(3000)],
        ...[holdsLess(MOST_HELD + MOST_QUEUED), read, end, isThrough]
      ],
      then: ({ response }) => expect(numbersOf(response)).toEqual([...upTo(3000), 'result'])
    }
  )

  conversation('is let go when its client cancels while it waits', {
    ...flood(100_000),
    client: [
      ...[post, pause, begins, untilItWaits, drop, isThrough, counts({ live: 0 })],
      ...[({ wires }: Talk) => expect(wires.at(-1)!.response.status).toBe(204)]
    ]
  })

  /** Reads that many bytes, and no more. */
  const sip = (response: OpenStream, bytes: number) =>
    response.response.read(bytes) as Buffer | null
  it('has clients that hardly read: what is held stays within its bounds, and the others go on', async () => {
    const made = await talk({
      ...LIMITED,
      endpoint: [
        [open, hold, politely(3000), result],
        [open, hold, politely(3000), result],
        [result]
      ]
    })
    const memory = () => process.memoryUsage().external + process.memoryUsage().arrayBuffers
    const before = memory()
    await made.plays(post, pause, post({ id: 2 }))
    const crawler = made.response
    crawler.response.removeAllListeners('data')
    await made.plays(pause, begins, ({ runs }) => void runs[1]!.go(), untilItWaits)
    let [bytesHeld, memoryHeld, bytesRead] = [0, 0, 0]
    for (let i = 0; i < 3000; i++) {
      if (sip(crawler, 1) !== null) bytesRead++
      if (i % 100 > 0) continue
      await made.plays(post({ id: i }), end)
      expect(numbersOf(made.wires.pop()!.response)).toEqual(['result'])
      bytesHeld = Math.max(bytesHeld, made.stats().bytes)
      memoryHeld = Math.max(memoryHeld, memory() - before)
    }
    expect(bytesRead).toBeGreaterThan(2000)
    expect(written).toBeLessThan(3000)
    // 24 MB would have been written.
    expect(bytesHeld).toBeLessThan(2 * (MOST_HELD + MOST_QUEUED))
    expect(memoryHeld).toBeLessThan(8 * 1024 * 1024)
    expect(made.stats()).toMatchObject({ live: 2 })
    for (const n of [0, 1])
      await made.plays(on(n, drop), ({ wires }) => wires[n]!.response.destroy())
  })

  conversation(
    'has a client that hardly reads, which is told when its stream had to go meanwhile',
    {
      ...flood(1000),
      options: { maxStreamBytes: 16 * 1024 * 1024, maxStreams: 1 },
      client: [
        ...[post, pause, begins, isThrough, until(made => made.stats().finished === 1)],
        ...[post({ id: 'other' }), end, counts({ finished: 1, evictions: 1 })],
        on(0, async made => {
          made.response.resume()
          // Not a clean end: that would look like the whole.
          expect(await made.response.ended).not.toBe('end')
          const received = numbersOf(made.response)
          expect(received).toEqual(upTo(received.length))
          await resume({ by: 'endpoint', after: received.length })(made)
        }),
        end
      ],
      then: made => expect(made.words().slice(-2)).toEqual(['error stream-expired', 'end'])
    }
  )
})

describe('an endpoint that does not wait', () => {
  /** Writes until it is told to wait; returns how many notes were taken. */
  const fill = ({ emit }: RawCall, size: number): number => {
    let n = 1
    while (emit(noteOf(n, size))) n++
    return n - 1
  }

  conversation('fails its call: the client gets what was kept, and an error for its request', {
    ...LIMITED,
    endpoint: [
      ...[open, hold, (call: RawCall) => expect(fill(call, EVENT)).toBe(KEPT)],
      ({ closed }) => closed,
      hold,
      ({ emit }) => upTo(100).forEach(n => expect(emit(noteOf(n, EVENT))).toBe(false)),
      result
    ],
    client: [
      ...[post, cut, go, counts({ live: 0, finished: 1 }), holdsLess(MOST_HELD), go],
      ...[resume({ after: null }), end, resume({ by: 'endpoint', after: KEPT }), end]
    ],
    sees: [primer, ...upTo(KEPT), 'error overflow', 'end', primer, 'error overflow', 'end'],
    then: ({ errors, stream }) => expect(errors).toEqual([['overflow', stream]])
  })

  conversation(
    'fails it also while a client is connected that does not read, and the client finds the error when it does',
    {
      ...LIMITED,
      endpoint: [
        ...[open, hold],
        async call => {
          for (let n = 1; !call.isClosed; n++) {
            call.emit(noteOf(n, EVENT))
            if (n % 8 === 0) await new Promise(setImmediate)
          }
        }
      ],
      client: [post, pause, go, holdsLess(2 * MOST_HELD), read, end],
      then: ({ response }) => {
        const numbers = numbersOf(response)
        expect(numbers).toEqual([...upTo(numbers.length - 1), 'overflow'])
      }
    }
  )

  const burst =
    (events: number, size: number): Line =>
    ({ write }) =>
      expect(
        write(
          upTo(events)
            .map(n => `data: ${JSON.stringify(noteOf(n, size))}\n\n`)
            .join('')
        )
      ).toBe(false)
  describe.each([
    ['twice that at once, and waits then', 15, true],
    ['more at once', 50, false]
  ])('that writes %s', (_what, events, isKept) => {
    conversation(isKept ? 'has all of it kept' : 'fails its call', {
      options: { maxStreamBytes: 10_000 },
      endpoint: [
        ...[open, hold, burst(events, 1000)],
        ({ res }) => isKept && new Promise(resolve => res.once('drain', resolve)),
        result
      ],
      client: [post, go, end],
      then: ({ response }) => {
        const numbers = numbersOf(response)
        const last = isKept ? 'result' : 'overflow'
        expect(numbers).toEqual([...upTo(isKept ? events : numbers.length - 1), last])
        expect(numbers.length).toBeLessThan(22)
      }
    })
  })

  conversation('writes more at once while its client is away, and no more than the limit is held', {
    ...LIMITED,
    endpoint: [open, hold, burst(500, EVENT), ({ closed }) => closed],
    client: [post, cut, go, holdsLess(MOST_HELD)],
    counts: { live: 0 }
  })

  conversation('may write with its head what a connection can take: it is about to follow', {
    options: { maxStreamBytes: 10_000 },
    endpoint: [
      open,
      call => {
        expect(fill(call, 1000)).toBeGreaterThan(4)
        call.res.once('drain', () => call.result())
      }
    ],
    client: [post, end],
    then: made => expect(made.words().slice(-2)).toEqual(['result', 'end'])
  })

  conversation(
    'fails its call with an event that is larger than all memory, in one write or in many',
    {
      options: { maxBytes: 1024 * 1024 },
      endpoint: [
        [open, hold, ({ emit }) => expect(emit(noteOf(1, 2 * 1024 * 1024))).toBe(false)],
        [
          ...[open, hold],
          ({ write }) => {
            write('data: ')
            let pieces = 0
            while (write('x'.repeat(64 * 1024))) pieces++
            expect(pieces).toBe(15)
          }
        ]
      ],
      client: [
        ...[post, go, end, post({ id: 2 }), go, end],
        ({ runs }) => Promise.all(runs.map(({ call }) => call.closed))
      ],
      sees: [primer, 'error event-too-large', 'end', primer, 'error event-too-large of 2', 'end']
    }
  )
})
