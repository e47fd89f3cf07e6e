// An endpoint that streams: what it says before its result goes out on the connection that is open.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { currentStream } from '../../../lib/index.js'
import { notification, result } from '../../helpers/mcp.js'
import { answer, cut, end, go, meanwhile } from '../../helpers/talk/client.js'
import { on, reply, resume, take, type Word } from '../../helpers/talk/client.js'
import { asks, emit, hold, note, open } from '../../helpers/talk/endpoint.js'
import { noteOf, resultIs, turn, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, play, primer, type Talk } from '../../helpers/talk/index.js'
import { given, PATIENT, postWithToken, report, TEXT, tokens } from './setup.js'

/** Messages that no wire takes without a reader: 20 MB. */
const MOST = 400
const step = (progressToken: unknown, progress: number) =>
  notification('notifications/progress', { progressToken, progress })
const progress = (n: number): Line => emit(step('a', n))
const meta = { progressToken: 'a' }
/** Comes back with a token, and waits. */
const again = (id: number, token: number, more: object = {}): Word =>
  meanwhile(postWithToken({ id, token, wait: PATIENT, ...more }))
const isOpen: Word = ({ response }) => expect(response.ending).toBeUndefined()
const types = ({ wires }: Talk) =>
  wires.map(({ response }) => String(response.headers['content-type']))

describe('a request for a token whose endpoint answers with an event stream', () => {
  conversation(
    'gets progress on the connection that is open, with the progress token of that request',
    {
      ...tokens(),
      endpoint: [hold, progress(1), note(1), hold, resultIs(TEXT)],
      client: [
        ...[report({ meta }), again(2, 1, { meta: { progressToken: 7 } })],
        ...[go, take(3), go, end]
      ],
      sees: [...given(1), primer, step(7, 1), 1, result(2, TEXT), 'end'],
      then: talk => expect(types(talk)[1]).toBe('text/event-stream')
    }
  )

  conversation('is answered with a token on the same stream when the time is over', {
    ...tokens(),
    endpoint: [progress(1), hold, progress(2), hold, call => call.error(-32000, 'no')],
    client: [
      // Nobody is there at first: what it says waits for the next.
      ...[report({ meta }), go, again(2, 1, { meta: { progressToken: 'b' } }), take(2)],
      ...[go, end]
    ],
    sees: [
      ...[primer, step('a', 1), 'token 1', 'end'],
      ...[primer, step('b', 2), 'error -32000 of 2', 'end']
    ]
  })

  conversation('is answered in JSON where the endpoint sends no event before', {
    ...tokens(),
    endpoint: [open, hold, resultIs(TEXT)],
    client: [report, again(2, 1), go, end],
    sees: [...given(1), 'json', result(2, TEXT)]
  })

  conversation('is answered in JSON for a client that accepts only that; a question for it fails', {
    ...{ ...tokens(), accept: 'application/json' },
    endpoint: [progress(1), asks('q'), hold],
    client: [report({ meta })],
    sees: given(1),
    then: async ({ requests }) =>
      expect((await requests.nth(2)).message).toMatchObject({
        ...{ id: 'q', error: { code: -31000, data: { reason: 'unanswered' } } }
      })
  })

  conversation('gets no progress without a progress token', {
    ...tokens(),
    endpoint: [hold, progress(1), resultIs(TEXT)],
    client: [report({ meta }), again(2, 1), go, end],
    sees: [...given(1), 'json', result(2, TEXT)]
  })

  conversation('stays open while its client is asked something', {
    ...tokens({}, { handoff: 'never' }),
    endpoint: [asks('q'), hold, resultIs(TEXT)],
    client: [
      ...[postWithToken, take(2), () => new Promise(done => setTimeout(done, 150))],
      ...[isOpen, go, end]
    ],
    sees: [primer, 'asks q', result(1, TEXT), 'end']
  })

  conversation('gets a question with its next request where no connection was open', {
    ...tokens(),
    endpoint: [hold, asks('q'), hold, resultIs(TEXT)],
    client: [report, go, again(2, 1), take(3), go, end],
    sees: [...given(1), primer, 'ping', 'asks q', result(2, TEXT), 'end']
  })

  conversation.each([
    ['to the endpoint', reply('q'), '202'],
    ['to the stream URL', answer('q'), primer]
  ])('asks nobody again who has answered, %s', (_where, answers, accepted) => ({
    ...{ ...tokens(), session: 'one' },
    endpoint: [hold, asks('q', 'r'), hold, resultIs(TEXT)],
    client: [
      ...[report, again(2, 1), go, take(4), answers, ...(accepted === primer ? [take(1)] : [])],
      ...[on(1, cut), on(2, cut), again(3, 1), take(2), go, end]
    ],
    sees: [
      ...[...given(1), primer, 'ping', 'asks q', 'asks r', accepted],
      ...[primer, 'asks r', result(3, TEXT), 'end']
    ]
  }))

  conversation('takes a hand-over for the answer on every connection on which it has asked', {
    ...{ ...tokens(), session: 'one', prefer: 'rel=stream' },
    endpoint: [hold, asks('q'), hold],
    client: [
      ...[report, again(2, 1), go, end],
      // Its client has gone; another process has the token.
      ...[postWithToken({ id: 3, token: 1, wait: 20 }), end, answer('q'), end]
    ],
    // It is not held by a question that has been answered.
    sees: [
      ...[...given(1), primer, 'asks q', primer, 'end', primer, 'asks q', primer, 'end'],
      ...[primer, 'token 2 of 3', 'end']
    ],
    counts: { waiting: 0 }
  })

  const part: Line = () => void currentStream()!.partial(TEXT)
  conversation(
    'may have a part of its result ready while it asks: that goes out once it has its answer',
    {
      ...{ ...tokens({ after: PATIENT }, { handoff: 'never' }), session: 'one' },
      endpoint: [asks('q'), hold, part, hold],
      client: [postWithToken, take(2), go, reply('q'), on(0, end)],
      sees: [...[primer, 'asks q', result(1, { ...TEXT, _meta: expect.anything() }), 'end', '202']]
    }
  )

  it('that waits for a slow client is slowed down', async () => {
    let written = 0
    const { call, response, run } = await play({
      ...{ ...tokens({}, { maxStreamBytes: 100_000 }), version: '2026-07-28' },
      endpoint: [note(0), hold, resultIs(TEXT)],
      client: [
        postWithToken({ wait: PATIENT }),
        async ({ call: { emit, res }, response }) => {
          response.pause()
          // The wire takes some of it. A pause that is none on a busy machine ends this early, and
          // proves nothing.
          const drains = async (): Promise<boolean> => {
            const signal = AbortSignal.timeout(100)
            return once(res, 'drain', { signal }).then(Boolean, () => false)
          }
          do written++
          while ((emit(noteOf(1, 50_000)) || (await drains())) && written < MOST)
        }
      ]
    })
    expect(written).toBeLessThan(MOST)
    const drained = once(call.res, 'drain')
    response.resume()
    await drained
    await run.go()
    await response.ended
    expect(response.messages().at(-1)).toEqual(result(1, TEXT))
    expect(response.messages()).toHaveLength(written + 2)
  })
})

describe('a stream that answers a request with a token', () => {
  conversation('is resumed by its link like any other', {
    ...tokens(),
    endpoint: [progress(1), hold, resultIs(TEXT)],
    client: [
      ...[postWithToken({ wait: PATIENT, meta }), take(2), cut, go],
      ...[resume({ after: null }), end]
    ],
    sees: [primer, step('a', 1), primer, step('a', 1), result(1, TEXT), 'end'],
    hears: ['tools/call']
  })

  conversation.each([
    ['is not made at 2026-07-28', undefined],
    ['is made at 2026-07-28 for a client that has announced itself', 'rel=stream']
  ])('%s', (_what, prefer) => ({
    ...{ ...tokens(), version: '2026-07-28', prefer },
    endpoint: [progress(1), turn, resultIs(TEXT)],
    client: [postWithToken({ wait: PATIENT, meta }), end],
    sees: [...(prefer ? [primer] : []), step('a', 1), result(1, TEXT), 'end'],
    then: ({ response: { headers } }) =>
      expect(String(headers.link).includes('stream=')).toBe(prefer !== undefined)
  }))
})
