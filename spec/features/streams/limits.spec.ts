// What a disconnected stream may retain unsent: so many messages and bytes (Security
// Considerations).

import { describe, expect } from '@jest/globals'
import { counts, cut, end, go, post, take } from '../../helpers/talk/client.js'
import { hold, note, noteOf, open, result, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo } from '../../helpers/talk/index.js'
import { create, end as endOf, INTERVAL, resume, STREAMS } from './setup.js'

const OVERFLOW = {
  jsonrpc: '2.0',
  id: 1,
  error: {
    code: -31000,
    message: 'The stream outgrew its buffer before a client read it',
    data: { reason: 'overflow' }
  }
}
const world = (maxUnsent: object) => ({
  ...{ session: 'mine', capabilities: STREAMS, options: { retry: 10, maxUnsent } }
})
/** Writes notes until one is not taken, and has failed its stream: that is the `last`. */
const fillTo =
  (last: number, size = 0): Line =>
  ({ emit }) => {
    let n = 1
    while (n < 10_000 && emit(noteOf(n, size))) n++
    expect(n).toBe(last)
  }
const taken =
  (n: number): Line =>
  ({ emit }) =>
    expect(emit(noteOf(n))).toBe(true)
/** It has read that its stream begins, and has gone. */
const AWAY = [post, take(2), cut]

describe('of one stream', () => {
  conversation(
    'messages: what the endpoint writes beyond them fails the stream, and its client is told',
    {
      ...world({ messages: 10 }),
      endpoint: [open, hold, fillTo(11)],
      client: [
        ...[...AWAY, go, counts({ live: 0, finished: 1 })],
        ...[resume(1, { id: null }), end]
      ],
      sees: ({ stream: id }) => [
        ...[primer, create(id, INTERVAL), primer, ...upTo(10), OVERFLOW, endOf(id), 'end']
      ],
      then: ({ errors, stream }) => expect(errors).toEqual([['overflow', stream]])
    }
  )

  conversation('messages: a client that comes back in time makes room, and the endpoint goes on', {
    ...world({ messages: 10 }),
    endpoint: [open, hold, ...upTo(10).map(taken), hold, taken(11), result],
    client: [...AWAY, go, resume(1), take(11), go, end],
    sees: ({ stream: id }) => [
      ...[primer, create(id, INTERVAL), primer, ...upTo(11), 'result', endOf(id)],
      ...['result of resume', 'end']
    ]
  })

  // 900 bytes of data make a message of more than 1,000.
  conversation('bytes', {
    ...world({ bytes: 5000 }),
    endpoint: [open, hold, fillTo(6, 900)],
    client: [...AWAY, go, counts({ live: 0 })]
  })
})

conversation('never keeps the beginning and the end of a stream from its client', {
  ...world({ messages: 1 }),
  endpoint: [open, hold, note(1), result],
  client: [...AWAY, go, resume(0, { id: null }), end],
  sees: ({ stream: id }) => [
    ...[primer, create(id, INTERVAL)],
    ...[primer, create(id, INTERVAL), 1, OVERFLOW, endOf(id), 'end']
  ]
})
