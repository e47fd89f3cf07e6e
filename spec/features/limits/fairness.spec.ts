// When one owner takes all that there is: what others have stays, and what others begin is kept as
// ever.

import { describe, expect } from '@jest/globals'
import { counts, cut, drop, end, go, on, post } from '../../helpers/talk/client.js'
import { resume, take, until, type Word } from '../../helpers/talk/client.js'
import { hold, note, open, result } from '../../helpers/talk/endpoint.js'
import { conversation, upTo, type Talk } from '../../helpers/talk/index.js'

const MAX_STREAMS = 18
type Owner = { auth?: string }
const A = { auth: 'a' }
const B = { auth: 'b' }
const nobody = until(talk => talk.stats().connections === 0)
const world = (options = {}, size = 0) => ({
  options: { maxStreams: MAX_STREAMS, ...options },
  endpoint: [open, hold, note(1, size), hold, result]
})
/** A call that has ended: delivered, or with a response that its client was not there for. */
const ended = (owner: Owner): Word[] => [post(owner), go, take(2), go, end, nobody]
const unread = (owner: Owner): Word[] => [post(owner), go, take(2), cut, go, nobody]
/** What a client gets that comes back with nothing for its nth stream: all of it, or a status. */
const hears = (n: number, owner: Owner, expected: 'all' | number): Word[] => [
  on(n, resume({ after: null, ...owner })),
  end,
  ({ wire, response }) =>
    expect(response.status === 200 ? wire.messages.length : response.status).toBe(
      expected === 'all' ? 2 : expected
    )
]

describe('what one owner has', () => {
  describe.each([
    ['another', A],
    ['nobody in particular', {}]
  ])('beside streams of %s', (_name, flooder) => {
    conversation('is not evicted by them, read or not', {
      ...world(),
      client: [
        ...[...ended(B), ...unread(B), ...ended(flooder)],
        ...upTo(MAX_STREAMS).flatMap(n => (n % 2 === 1 ? ended(flooder) : unread(flooder))),
        ...[...hears(0, B, 'all'), ...hears(1, B, 'all'), ...hears(2, flooder, 410)]
      ],
      counts: { finished: MAX_STREAMS, evictions: 3 }
    })
  })

  const maxBytes = 400_000
  conversation('is not evicted by bytes of another', {
    options: { maxBytes, maxStreams: 1000 },
    endpoint: [
      [open, hold, note(1, 20_000), hold, result],
      [open, hold, note(1, 100_000), hold, result]
    ],
    client: [
      ...[...ended(B), ...upTo(10).flatMap(n => (n % 2 === 1 ? ended(A) : unread(A)))],
      talk => {
        expect(talk.stats().bytes).toBeLessThanOrEqual(maxBytes)
        expect(talk.stats().evictions).toBeGreaterThan(0)
      },
      ...hears(0, B, 'all')
    ]
  })

  conversation('is not evicted for what of another runs, nor for what that writes', {
    ...world({ maxBytes }, 20_000),
    client: [
      ...ended(B),
      async talk => {
        for (;;) {
          await talk.plays(post(A))
          if (talk.response.headers.link === undefined) break
          await talk.plays(go, take(2))
        }
        const kept = talk.wires.length - 2
        expect(kept).toBeLessThan(MAX_STREAMS)
        expect(talk.stats()).toMatchObject({ live: kept, finished: 1, refusals: 1, evictions: 0 })
      },
      ...hears(0, B, 'all')
    ]
  })

  const cancelled = (owner: Owner): Word[] => [
    ...[post(owner), drop(owner), ({ response }: Talk) => expect(response.status).toBe(204)],
    ({ wires }) => wires.at(-2)!.response.ended
  ]
  conversation('is remembered, however much of another has ended', {
    ...world(),
    client: [
      ...[...cancelled(B), ...cancelled(A), ...upTo(MAX_STREAMS).flatMap(() => cancelled(A))],
      ...[...hears(0, B, 204), ...hears(2, A, 404)]
    ]
  })
})

describe('running calls of one owner', () => {
  const isTaken =
    (taken: boolean): Word =>
    ({ response }) =>
      expect(response.headers.link !== undefined).toBe(taken)

  conversation('leave room for others; those beyond its share pass as they would without us', {
    ...world(),
    client: [
      ...upTo(2 * MAX_STREAMS).flatMap(n => [
        post(A),
        isTaken(n <= 16),
        ...(n > 16 ? [go, go] : [])
      ]),
      counts({ live: 16, refusals: 2 * MAX_STREAMS - 16, evictions: 0 }),
      ...[post(B), isTaken(true), go, go, end],
      // With one of its own ended, the owner gets another.
      ...[go({ run: 0 }), go({ run: 0 }), post(A), isTaken(true)]
    ],
    counts: { live: 16, finished: 2 }
  })
})
