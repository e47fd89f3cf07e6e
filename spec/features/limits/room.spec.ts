// When there is no room: who makes way for whom, and that nobody who still needs a stream is robbed
// of it.

import { describe, expect, it } from '@jest/globals'
import { happenings } from '../../helpers/happenings.js'
import { counts, cut, drop, end, go, listen, on } from '../../helpers/talk/client.js'
import { post, resume, take, until, type Word } from '../../helpers/talk/client.js'
import { hold, note, noteOf, open, result, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, talk, upTo, type Talk } from '../../helpers/talk/index.js'

const nobody = until(talk => talk.stats().connections === 0)
const CALL = [open, hold, note(1), hold, result]
/** Messages, and what the endpoint is told of each. */
const writes =
  (goesOn: boolean, ...messages: object[]): Line =>
  ({ emit }) => {
    for (const message of messages) expect(emit(message)).toBe(goesOn)
  }
const taken =
  (isTaken: boolean): Word =>
  ({ response }) =>
    expect(response.headers.link !== undefined).toBe(isTaken)

describe('when there are too many streams', () => {
  it('those that were delivered go before those that were not, of each the one used longest ago', async () => {
    const made = await talk({ options: { maxStreams: 5 }, endpoint: CALL })
    const unread = (id: number) => [post({ id }), go, take(2), cut, go, nobody]
    const read = (id: number) => [post({ id }), go, take(2), go, end, nobody]
    await made.plays(...unread(1), ...unread(2), ...read(3), ...read(4), ...read(5))
    const ids = made.wires.map(
      ({ response }) => /stream=([\w-]{21})/.exec(`${response.headers.link}`)![1]
    )
    const evicted = happenings('evicted')
    // A client asks for the oldest of each kind again, though without taking what was not
    // delivered.
    await made.plays(
      on(2, resume({ after: null })),
      end,
      on(0, resume({ after: 'ID.9' })),
      end,
      nobody
    )
    for (const i of upTo(5)) {
      await made.plays(post({ id: 5 + i }))
      expect(made.stats()).toMatchObject({ live: i, finished: 5 - i, evictions: i, refusals: 0 })
    }
    expect(evicted.map(({ streamId }) => ids.indexOf(streamId) + 1)).toEqual([4, 5, 3, 2, 1])
    const before = made.words().length
    await made.plays(on(3, resume({ after: null })), end, on(1, resume({ after: null })), end)
    await made.plays(on(1, resume({ by: 'endpoint', after: 1 })), end)
    expect(made.words().slice(before)).toEqual([
      ...['410 stream-expired', '410 stream-expired', primer, 'error stream-expired of 2', 'end']
    ])
  })

  let refused: ReturnType<typeof happenings>
  conversation(
    'and all of them run, a new response passes as it would without us, and is counted',
    {
      options: { maxStreams: 2 },
      endpoint: [
        CALL,
        CALL,
        [open, hold, note(1), ({ write }) => write(': as it is\r\n\r\n'), result],
        CALL
      ],
      client: [
        ...[() => void (refused = happenings('refused')), post, post({ id: 2 }), post({ id: 3 })],
        ...[taken(false), go, end],
        ({ response: { headers, text } }) => {
          expect(headers['cache-control']).toBe('no-cache')
          expect(text).toBe(
            `event: message\ndata: ${JSON.stringify(noteOf(1))}\n\n: as it is\r\n\r\n` +
              `event: message\ndata: {"jsonrpc":"2.0","id":3,"result":{}}\n\n`
          )
          expect(refused.map(({ reason }) => reason)).toEqual(['full'])
        },
        counts({ live: 2, finished: 0, refusals: 1, evictions: 0 }),
        // Its close is the socket's, as without us.
        ...[post({ id: 4 }), ({ response }: Talk) => response.destroy()],
        ...[({ call }: Talk) => call.closed, counts({ refusals: 2 })],
        // The running ones have not noticed.
        ...[
          go({ run: 0 }),
          go({ run: 1 }),
          on(0, take(2)),
          on(1, take(2)),
          go({ run: 0 }),
          on(0, end)
        ],
        ...[post({ id: 5 }), taken(true)]
      ],
      counts: { live: 2, refusals: 2, evictions: 1 },
      then: ({ runs }) => expect(runs).toHaveLength(5)
    }
  )

  const CHANNEL = {
    ...{ session: 'session', options: { maxStreams: 2 } },
    channel: [open, hold, note(1), hold],
    endpoint: [open, hold]
  }
  conversation(
    'a parked listen channel with nothing to say gives way; its client opens a new one',
    {
      ...CHANNEL,
      client: [
        ...[
          listen,
          go,
          take(2),
          cut,
          post,
          ({ runs }: Talk) => expect(runs[0]!.call.isClosed).toBe(false)
        ],
        ...[counts({ live: 2, finished: 0, evictions: 0 }), post({ id: 2 }), taken(true)],
        ...[
          ({ runs }: Talk) => runs[0]!.call.closed,
          counts({ live: 2, evictions: 1, refusals: 0 })
        ],
        ...[listen, taken(false), ({ call }: Talk) => expect(call.req.method).toBe('GET')],
        on(2, drop)
      ],
      then: ({ response, runs }) => expect([response.status, runs.length]).toEqual([204, 4])
    }
  )

  conversation('a listen channel stays that is followed, or that has something to say', {
    ...CHANNEL,
    client: [
      ...[listen, post, post({ id: 2 }), taken(false), on(0, cut), go({ run: 0 })],
      ...[post({ id: 3 }), taken(false), listen, take(2)],
      ({ runs }) => expect(runs[0]!.call.isClosed).toBe(false)
    ],
    sees: [primer, 1],
    counts: { refusals: 2 }
  })
})

describe('when all streams together hold too much', () => {
  const maxBytes = 1024 * 1024
  const isHeld: Word = talk => expect(talk.stats().bytes).toBeLessThanOrEqual(maxBytes)
  conversation('finished ones make room for running ones, and the limit holds at every moment', {
    options: { maxBytes, maxStreamBytes: maxBytes },
    endpoint: [
      ...upTo(20).map(() => [open, note(1, 100_000), result]),
      [open, ...upTo(8).flatMap(n => [hold, note(n, 100_000)]), hold, result]
    ],
    client: [
      ...upTo(20).flatMap(() => [post, end, isHeld]),
      talk => {
        const { finished, evictions } = talk.stats()
        expect(finished).toBeLessThan(20)
        expect(finished).toBe(20 - evictions)
      },
      ...[post, take(1), ...upTo(8).flatMap(() => [go, take(1), isHeld]), go, end],
      ...[on(0, resume({ after: null })), end]
    ],
    then: talk =>
      expect(talk.words().slice(-12)).toEqual([
        ...[primer, ...upTo(8), 'result', 'end', '410 stream-expired']
      ])
  })

  conversation(
    'and all of them run, the one that needs more fails explicitly; the others and new ones are as they were',
    {
      options: { maxBytes: 300_000 },
      endpoint: [
        [open, hold, writes(true, noteOf(1, 140_000), noteOf(2, 140_000)), hold, result],
        [open, hold, writes(false, noteOf(1, 50_000)), hold],
        [open, hold, result]
      ],
      client: [
        ...[post, post({ id: 'modest' }), on(0, cut), go({ run: 0 }), go({ run: 1 }), on(1, end)],
        talk => expect(talk.stats().bytes).toBeLessThanOrEqual(300_000 + 1024),
        ...[post({ id: 'small' }), go, end, on(0, resume({ after: null })), go({ run: 0 }), end]
      ],
      sees: [
        ...[primer, 'error overflow of modest', 'end', primer, 'result of small', 'end'],
        ...[primer, 1, 2, 'result', 'end']
      ],
      then: ({ errors }) => expect(errors.map(([code]) => code)).toEqual(['overflow'])
    }
  )
})
