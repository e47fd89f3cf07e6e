// A stream that waits for its client: what is held, what an operator sees, and what happens to it
// meanwhile.

import { describe, expect, it } from '@jest/globals'
import { QUIET } from '../../../lib/features/hand-off/hand-off.js'
import { happenings } from '../../helpers/happenings.js'
import { cancelled, notification, result as resultOf } from '../../helpers/mcp.js'
import { answer, closed, counts, cut, drop, end, go, on } from '../../helpers/talk/client.js'
import { pass, post, reply, request, resume, take, until, wait } from '../../helpers/talk/client.js'
import {
  ask,
  asks,
  emit,
  hold,
  leave,
  note,
  result,
  resultIs,
  type Line
} from '../../helpers/talk/endpoint.js'
import { conversation, play, primer, upTo, type Talk } from '../../helpers/talk/index.js'
import { QUICK } from './asking.js'

/** A client that follows links. */
const WORLD = { prefer: 'rel=stream', options: QUICK }
const ASKED = { ...WORLD, endpoint: [ask('a'), result] }
/** It has asked `a`, and goes on by `go`. */
const asksAnd = (...lines: Line[]) => ({
  ...WORLD,
  endpoint: [asks('a'), hold, ...lines]
})
const OPENED = [post, end, counts({ waiting: 1 })]
const SEEN = [primer, 'asks a', primer, 'end']

describe('a call that is handed off', () => {
  conversation('has had its client disconnected, with an id and a time to come back', {
    ...ASKED,
    options: { ...QUICK, retry: 30, resumeInterval: { min: 0.02 } },
    client: OPENED,
    sees: SEEN,
    ids: ['r1.0.1', 'r1.1', expect.stringMatching(/^r1\.1\.\d+$/)],
    then: ({ wire }) => expect(wire.blocks.at(-1)).toMatchObject({ data: '', retry: 30 })
  })

  const connections = ({ server }: Talk) =>
    new Promise<number>(resolve => server.getConnections((_error, count) => resolve(count)))
  it('is counted, announced, and holds no connection', async () => {
    const notices = happenings('waiting')
    const talk = await play({
      ...WORLD,
      endpoint: [({ message }, run) => run.ask(`of ${message.id}`), result],
      client: upTo(20).flatMap(id => [post({ id }), end])
    })
    await notices.nth(20)
    expect(notices[0]).toMatchObject({ state: 'waiting', reason: undefined })
    expect(talk.stats()).toMatchObject({ live: 0, waiting: 20, finished: 0, connections: 0 })
    while ((await connections(talk)) > 0) await new Promise(setImmediate)
    await talk.plays(on(0, answer('of 1')), end)
    expect(talk.stats()).toMatchObject({ live: 0, waiting: 19, finished: 1, connections: 0 })
  })

  conversation('answers each GET with an empty 204', {
    ...ASKED,
    client: [
      ...OPENED,
      ...upTo(3).flatMap(() => [
        ...[resume, end],
        ({ response: { text, headers } }: Talk) =>
          expect([text, headers.link, headers['cache-control']]).toEqual([
            '',
            undefined,
            'no-store'
          ])
      ])
    ],
    sees: [...SEEN, '204', '204', '204']
  })

  const head = (lastEventId?: string) =>
    request('HEAD', ({ link, stream }) => ({
      url: link,
      ...(lastEventId && { lastEventId: `${stream}.${lastEventId}` })
    }))
  conversation('answers HEAD as GET, and takes nothing from it', {
    ...ASKED,
    client: [
      ...[...OPENED, head('r1.1.2'), head('r1.0.1')],
      // Nor does it speak for whoever comes next without a cursor.
      ...[head(), head(), head(), resume({ after: null }), end],
      ...[head(), head(), head(), resume({ after: null }), head(), resume({ after: null })]
    ],
    then: ({ wires }) =>
      expect(wires.slice(1).map(({ response }) => response.status)).toEqual([
        ...[204, 200, 200, 200, 200, 200, 204, 204, 204, 204, 200, 200]
      ])
  })

  conversation('gives a client first what it has missed, and disconnects', {
    ...ASKED,
    client: [...OPENED, resume({ after: 'ID.r1.0.1' }), end, resume],
    sees: [...SEEN, ...SEEN, '204']
  })

  conversation(
    'gives a client without a cursor everything and 204 in turn, as nobody knows what it has',
    {
      ...ASKED,
      client: [
        ...OPENED,
        ...upTo(3).flatMap(() => [resume({ after: null }), end, resume({ after: null })])
      ],
      sees: [...SEEN, ...upTo(3).flatMap(() => [...SEEN, '204'])]
    }
  )

  conversation('repeats a question whose connection broke behind the response head', {
    ...ASKED,
    // Nothing but its head has arrived, as far as this client is concerned.
    client: [
      ...[post, until(talk => talk.stats().waiting === 1), cut],
      ...[resume({ after: null }), end, resume]
    ],
    sees: [...SEEN, '204']
  })

  conversation('gives a client without a cursor everything, if its connection was cut', {
    ...WORLD,
    endpoint: [note(1), hold, ask('a'), result],
    client: [
      ...[post, take(2), cut({ by: 'rst' }), go, until(talk => talk.stats().waiting === 1)],
      ...[resume({ after: null }), end, resume({ after: null })]
    ],
    sees: [primer, 1, primer, 1, 'asks a', primer, 'end', '204']
  })

  conversation(
    'delivers what comes meanwhile with the next GET, and answers 204 to the one after it',
    {
      ...asksAnd(note(1)),
      client: [...OPENED, resume, go, on(0, resume), end, resume],
      sees: [...SEEN, '204', primer, 1, primer, 'end', '204']
    }
  )

  conversation(
    'delivers what comes after the 204 with the turn, to a client that does not ask again',
    {
      ...asksAnd(note(1), hold, result),
      client: [...OPENED, resume, go, answer('a'), go, end],
      sees: [...SEEN, '204', primer, 1, 'result', 'end']
    }
  )

  conversation('may ask more: the client gets that before it answers', {
    ...asksAnd(asks('b')),
    client: [...OPENED, go, resume, end, resume, answer('b'), cut],
    sees: [...SEEN, primer, 'asks b', primer, 'end', '204'],
    counts: { finished: 0 }
  })

  conversation('may end without the answers: the next GET has the response', {
    ...asksAnd(resultIs({ early: true })),
    client: [
      ...[...OPENED, resume, go, resume, end, counts({ waiting: 0, finished: 1 })],
      // What still comes is not passed on, and has the response too.
      ...[answer('a'), end]
    ],
    sees: [
      ...[...SEEN, '204', primer, resultOf(1, { early: true }), 'end'],
      ...[primer, 'result', 'end']
    ],
    hears: ['tools/call']
  })

  conversation('may fail: its client gets the error', {
    ...asksAnd(leave),
    client: [...OPENED, go, resume, end],
    sees: [...SEEN, primer, 'error no-response', 'end']
  })

  conversation('goes on when the server takes its request back', {
    ...asksAnd(emit(cancelled('a')), hold, result),
    client: [...OPENED, go, counts({ waiting: 0, live: 1 }), resume, take(2), go, end],
    sees: [
      ...[...SEEN, primer],
      ...[
        notification(
          'notifications/cancelled',
          expect.objectContaining({ requestId: 'a' }) as object
        )
      ],
      ...['result', 'end']
    ]
  })

  conversation(
    'goes on waiting when the server takes back one request of two, or none of its own',
    {
      ...WORLD,
      endpoint: [
        asks('a', 'b'),
        hold,
        emit(cancelled('c')),
        hold,
        emit(cancelled('a')),
        hold,
        result
      ],
      client: [
        ...[...OPENED, go, counts({ waiting: 1 }), go, until(talk => talk.stats().waiting === 1)],
        // The client had answered by then; what is not wanted any more does not reach the endpoint.
        ...[resume, end, resume, answer('a', 'b'), go, end]
      ],
      sees: [
        ...[primer, 'asks a', 'asks b', primer, 'end'],
        ...[primer, 'cancelled', 'cancelled', primer, 'end', '204', primer, 'result', 'end']
      ],
      hears: ['tools/call', 'answer b']
    }
  )

  conversation('is cancelled by DELETE: its endpoint is told, and nothing more comes', {
    ...ASKED,
    client: [
      ...[...OPENED, drop, closed, counts({ waiting: 0, live: 0 })],
      ...[resume({ after: null }), answer('a')]
    ],
    sees: [...SEEN, '204', '204', '204'],
    hears: ['tools/call', 'close']
  })

  const headers = { 'idempotency-key': '"a-key-of-this-spec"' }
  conversation('survives a client that comes back for something else: its call, sent again', {
    ...ASKED,
    // It must be told that it is to answer.
    client: [post({ headers }), end, post({ headers }), end, resume, answer('a'), end],
    sees: [...SEEN, ...SEEN, '204', primer, 'result', 'end'],
    hears: ['tools/call', 'answer a'],
    counts: { waiting: 0, finished: 1 }
  })
})

describe('the quiet before a hand-off', () => {
  conversation('counts from the last event on: a burst of events is delivered on one connection', {
    ...WORLD,
    clock: 'stopped',
    options: QUICK,
    endpoint: [asks('a', 'b'), note(1), hold, note(2), hold],
    client: [
      post,
      take(4),
      pass(QUIET - 1),
      go,
      take(1),
      pass(QUIET - 1),
      counts({ connections: 1 }),
      pass(1),
      end
    ],
    sees: [primer, 'asks a', 'asks b', 1, 2, primer, 'end']
  })

  it('does not keep a call that goes on reporting from being handed off', async () => {
    const notices = happenings('waiting')
    let isAnswered = false
    const talk = await play({
      ...WORLD,
      options: QUICK,
      endpoint: [
        (_, run) => {
          let n = 0
          const noise = setInterval(
            () => run.emit(notification('notifications/message', { data: ++n })),
            2
          )
          return run.ask('a').then(() => clearInterval(noise))
        },
        () => (isAnswered = true),
        result
      ],
      client: [post, end]
    })
    // Not once for every note that comes between two polls.
    for (let requests = 1; talk.response.status === 200; requests++) {
      expect(requests).toBeLessThan(4)
      await talk.plays(resume, end)
    }
    expect([talk.response.status, notices.length, isAnswered]).toEqual([204, 1, false])
    await talk.plays(answer('a'), end)
    // Every note, once and in order.
    const words = talk.words().filter(word => typeof word === 'number')
    expect(words).toEqual(upTo(words.length))
    expect(talk.words().slice(-2)).toEqual(['result', 'end'])
  })

  conversation('has no effect on a call that asks nothing', {
    ...WORLD,
    clock: 'stopped',
    endpoint: [note(1), hold, result],
    client: [post, take(2), pass(10_000), counts({ connections: 1, waiting: 0 }), go, end],
    sees: [primer, 1, 'result', 'end']
  })
})

describe('a client that has not announced itself', () => {
  const unannounced = { options: { ...QUICK, handoffAfter: 5 } }
  const PINGED = [primer, 'ping', 'asks a', primer, 'end']

  conversation(
    'is disconnected once where it leaves the ping unanswered, and not again where it comes back to the endpoint',
    {
      ...unannounced,
      endpoint: [ask('a'), result],
      client: [
        ...[post, end, counts({ live: 1, waiting: 0 })],
        ...[resume({ by: 'endpoint' }), wait(30), counts({ connections: 1, waiting: 0 })],
        ...[reply('a'), on(1, end)]
      ],
      sees: [...PINGED, primer, 'result', 'end', '202']
    }
  )

  conversation('is handed off to from its first GET of the stream URL on', {
    ...unannounced,
    endpoint: [ask('a'), ask('b'), result],
    client: [
      ...[post, end, resume, counts({ waiting: 1 })],
      // By quiet now, not by patience.
      ...[answer('a'), end, counts({ waiting: 1 })]
    ],
    sees: [...PINGED, '204', primer, 'asks b', primer, 'end']
  })

  conversation(
    'is handed off to in all calls of its session, once it has fetched the stream URL of one',
    {
      session: 's',
      options: { ...QUICK, handoffAfter: 600_000 },
      endpoint: [ask('a'), result],
      client: [
        ...[post, take(3), post({ id: 2 }), take(3), on(0, resume), on(0, end), end, on(1, end)],
        ...[counts({ waiting: 2, connections: 0 }), post({ id: 3 }), end]
      ],
      // The newer connection of the first takes over from the older one.
      sees: [...[primer, 'ping', 'asks a', 'end', ...PINGED], ...[primer, primer, 'end', ...SEEN]],
      counts: { waiting: 3 }
    }
  )

  conversation('stays connected where it answers before handoffAfter', {
    session: 's',
    options: { ...QUICK, handoffAfter: 600_000 },
    endpoint: [ask('a'), result],
    client: [post, take(3), reply('a'), on(0, end)],
    sees: [primer, 'ping', 'asks a', 'result', 'end', '202'],
    counts: { resumes: 0 }
  })
})
