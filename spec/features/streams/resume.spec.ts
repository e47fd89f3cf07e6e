// `stream/resume`: all that is unsent, then live, then the end, then a result; and what comes
// instead where that is not possible.

import { describe, expect, it, jest } from '@jest/globals'
import { currentStream, type CurrentStream } from '../../../lib/index.js'
import { happenings } from '../../helpers/happenings.js'
import { result as resultOf } from '../../helpers/mcp.js'
import { cut, drop, end, go, listen, on, post, reply } from '../../helpers/talk/client.js'
import { resume as resumeBy, take, turn } from '../../helpers/talk/client.js'
import { asks, destroy, hold, note, notes, result } from '../../helpers/talk/endpoint.js'
import { type Line } from '../../helpers/talk/endpoint.js'
import { conversation, play, primer, upTo, type Talk } from '../../helpers/talk/index.js'
import { create, end as endOf, INTERVAL, resume, STREAMS, UNKNOWN } from './setup.js'

/** A client in a session that has declared the draft, and comes back by its method. */
const DRAFT = { session: 'mine', capabilities: STREAMS, options: { retry: 10 } }
const CALL = { ...DRAFT, endpoint: [note(1), hold, result] }
/** It has read that its stream begins, and the first note, and has gone. */
const AWAY = [post, take(3), cut]
const begun = ({ stream }: Talk) => [primer, create(stream, INTERVAL), 1]
const over = ({ stream }: Talk) => [
  ...['result', endOf(stream)],
  ...[resultOf('resume', { streamId: stream, status: 'completed' }), 'end']
]
const live = ({ stream }: Talk) => resultOf('resume', { streamId: stream, status: 'live' })
let stream: CurrentStream
const mine: Line = () => (stream = currentStream()!)

describe('a request with an id', () => {
  conversation('is answered with a result, after the end', {
    ...DRAFT,
    endpoint: [note(1), hold, note(2), hold, result],
    client: [...AWAY, resume(2), go, take(2), go, end],
    sees: talk => [...begun(talk), primer, 2, ...over(talk)],
    // The result is no event of the stream: the cursor stays where it is.
    then: ({ wire }) => expect(wire.blocks.findLast(({ id }) => id)!.id).toMatch(/\.5$/)
  })

  conversation(
    'of a stream that has ended has the rest, and of one that nothing is missing of has the end',
    {
      ...DRAFT,
      endpoint: [note(1), result],
      client: [post, end, ...[2, 3, 4, 'ID.4'].flatMap(after => [resume(after), end])],
      sees: talk => [
        ...[...begun(talk), 'result', endOf(talk.stream), 'end', primer, ...over(talk)],
        ...upTo(3).flatMap(() => [primer, ...over(talk).slice(1)])
      ]
    }
  )

  conversation(
    'of a stream that is closed at will before its end says that there is more to come for',
    {
      ...DRAFT,
      endpoint: [mine, note(1), hold, note(2), hold, () => stream.disconnect(), hold],
      client: [...AWAY, resume(2), go, take(2), go, end],
      sees: talk => [...begun(talk), primer, 2, primer, live(talk), 'end']
    }
  )

  conversation(
    'that is closed at will, at any revision: who resumes by this method comes back by it',
    {
      version: '2025-06-18',
      options: { retry: 10 },
      endpoint: [mine, note(1), hold, () => stream.disconnect(), hold],
      client: [post, take(2), cut, resume(1), go, end],
      sees: talk => [primer, 1, primer, primer, live(talk), 'end']
    }
  )

  /** A client that has resumed and reads nothing, and so much for it that its socket is full. */
  const slow = () =>
    play({
      ...DRAFT,
      endpoint: [mine, note(1), hold, notesByTwenty, hold, result],
      client: [...AWAY, resume(2), ({ response }: Talk) => void response.pause(), go]
    })
  const notesByTwenty: Line = async (call, run) => {
    for (let n = 2; n <= 500; n += 20) {
      notes(n, Math.min(n + 19, 500), 30_000)(call, run)
      await new Promise(setImmediate)
    }
  }

  it('whose client was slow and was closed at will is not told of an end that it has not reached', async () => {
    const talk = await slow()
    stream.disconnect({ retry: 20 })
    await talk.plays(go)
    talk.response.resume()
    expect(await talk.response.ended).toBe('end')
    const messages = talk.response.messages()
    expect(messages.length).toBeLessThan(500)
    expect(messages.at(-1)).toEqual(live(talk))
    expect(messages).not.toContainEqual(endOf(talk.stream))
  })

  it('whose client was slow and is taken over is cut off', async () => {
    const talk = await slow()
    await talk.plays(resume(501), go, end)
    expect(talk.response.messages().slice(-3)).toMatchObject([{ id: 1 }, ...over(talk).slice(1, 3)])
    const { response } = talk.wires.at(-2)!
    response.resume()
    expect(await response.ended).not.toBe('end')
  })

  let takenOver: ReturnType<typeof happenings>
  conversation('that is taken over says so, and the newer one has the rest', {
    ...CALL,
    client: [
      ...[...AWAY, () => (takenOver = happenings('taken-over'))],
      ...[resume(2), resume(2), on(1, end), go, end]
    ],
    sees: talk => [...begun(talk), primer, live(talk), 'end', primer, ...over(talk)],
    then: () => expect(takenOver).toHaveLength(1)
  })

  const unknown = { jsonrpc: '2.0', id: 'resume', error: UNKNOWN }
  conversation(
    'of a stream that is cancelled meanwhile is answered with the error of a stream that is gone',
    {
      ...CALL,
      client: [...AWAY, resume(2), drop, on(1, end), resume(), end],
      sees: talk => [...begun(talk), primer, unknown, 'end', '204', 'json', unknown]
    }
  )

  conversation('of a stream that fails has the error, the end, and a result', {
    ...DRAFT,
    endpoint: [note(1), hold, destroy],
    client: [...AWAY, resume(2), go, end],
    sees: talk => [...begun(talk), primer, 'error no-response', ...over(talk).slice(1)]
  })
})

describe('without a cursor', () => {
  conversation(
    'a client that was cut gets again what its last connection began with, and never less',
    {
      ...DRAFT,
      endpoint: [note(1), hold, note(2), hold, note(3), hold],
      // The second connection began behind event 2.
      client: [
        ...[...AWAY, go, resume(2, { id: null }), take(2), cut, go],
        ...[resume(null, { id: null }), take(3)]
      ],
      sees: talk => [...begun(talk), primer, 2, primer, 2, 3]
    }
  )

  conversation('the same behind a clean close at will: the wire may have lost that too', {
    ...DRAFT,
    endpoint: [mine, note(1), () => stream.disconnect({ retry: 20 }), hold, result],
    client: [post, end, go, resume(null), end],
    sees: talk => [...begun(talk), primer, 'end', ...begun(talk), ...over(talk)]
  })

  conversation('the same behind a clean close at its end: the wire may have lost that too', {
    ...DRAFT,
    endpoint: [note(1), result],
    client: [post, end, resume(null), end],
    sees: talk => [
      ...[...begun(talk), 'result', endOf(talk.stream), 'end', ...begun(talk), ...over(talk)]
    ]
  })

  conversation(
    'goes on at the oldest message that is kept: what went out longer ago counts as arrived',
    {
      ...{ ...DRAFT, clock: 'stopped' },
      options: { retry: 10, window: 1000 },
      endpoint: [note(1), hold, notes(2, 39, 20_000), hold, note(40), hold],
      client: [
        ...[post, go, take(21), cut],
        async talk => {
          while (talk.stats().bytes > 200_000) {
            jest.advanceTimersByTime(1000)
            await turn()
          }
        },
        ...[go, resume(null), take(2)],
        ({ wire }) => expect(Number.parseInt(wire.messages[0].params.data, 10)).toBeGreaterThan(1),
        ...[resume(1), end]
      ],
      then: async ({ response }) =>
        expect((await response.json()).error).toEqual({
          code: -32602,
          message: 'Events after this cursor are no longer kept',
          data: { reason: 'events-evicted' }
        })
    }
  )
})

describe('earlier than min', () => {
  conversation(
    'a resume is served all the same, with the reconnection time that min is the floor of',
    {
      ...CALL,
      options: { retry: 10, resumeInterval: { min: 30, max: 60 } },
      client: [...AWAY, resume(1), take(2)],
      then: ({ wire, stream }) => {
        const id = expect.stringMatching(`^${stream}\\.r1\\.1\\.`)
        expect(wire.blocks[0]).toMatchObject({ id, retry: 30_000 })
        expect(wire.messages).toMatchObject([{ params: { data: 1 } }])
      }
    }
  )
})

describe('the ways of resuming', () => {
  conversation('mix: the stream URL, the endpoint, and stream/resume follow one log', {
    ...DRAFT,
    endpoint: [note(1), hold, note(2), hold, note(3), hold, result],
    client: [
      ...[...AWAY, go, resumeBy({ after: 1 }), take(3), resume('ID.2'), take(2)],
      ({ response, stream }) => expect(response.headers.link).toContain(stream),
      ...[resumeBy({ by: 'endpoint' }), go, take(2), go, end]
    ],
    sees: talk => [
      ...[...begun(talk), primer, 1, 2, 'end', primer, 2, live(talk), 'end'],
      ...[primer, 3, 'result', endOf(talk.stream), 'end']
    ]
  })

  conversation('stream/resume without a session, of a stateless endpoint', {
    version: '2025-06-18',
    options: { retry: 10, notifications: 'always' },
    endpoint: CALL.endpoint,
    client: [...AWAY, resume(null), take(2), go, end],
    sees: talk => [...begun(talk), ...begun(talk), ...over(talk)]
  })

  conversation('resumes a listen channel', {
    ...DRAFT,
    endpoint: [note(1), hold, note(2), hold],
    client: [listen, take(3), cut, go, resume(2), take(2)],
    sees: talk => [...begun(talk), primer, 2]
  })
})

conversation('a client that cannot keep up gets everything, at its pace', {
  ...DRAFT,
  options: { retry: 10, window: 600_000 },
  endpoint: [note(1), hold, notes(2, 300, 20_000), hold, result],
  client: [
    ...[...AWAY, go, resume(2), ({ response }: Talk) => void response.pause(), go, turn],
    ...[({ response }: Talk) => void response.resume(), end]
  ],
  sees: talk => [...begun(talk), primer, ...upTo(300).slice(1), ...over(talk)]
})

conversation('a request of the server is sent again until it is answered, at the endpoint', {
  ...DRAFT,
  endpoint: [asks('q'), hold, result],
  client: [post, take(4), cut, resume(1), take(3), reply('q'), go, on(1, end)],
  sees: talk => [
    ...[primer, create(talk.stream, INTERVAL), 'ping', 'asks q'],
    ...[primer, 'ping', 'asks q', ...over(talk), '202']
  ]
})

const headers = { 'idempotency-key': 'a-key-that-is-long-enough' }
conversation('a POST that is sent again under its key has the notifications in their place too', {
  ...CALL,
  client: [post({ headers }), take(3), cut, post({ headers }), go({ run: 0 }), end],
  sees: talk => [...begun(talk), ...begun(talk), ...over(talk).slice(0, 2), 'end']
})
