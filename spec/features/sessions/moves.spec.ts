// Sessions that move while calls still run where they were: each request, answer and listen channel
// finds the instance that it is for, at whichever moment it comes.

import { describe, expect } from '@jest/globals'
import { gate } from '../../helpers/gate.js'
import { request } from '../../helpers/mcp.js'
import { arrived, end, go, listen, meanwhile, on } from '../../helpers/talk/client.js'
import { post, resume, take, turn, until, type Word } from '../../helpers/talk/client.js'
import { asks, emit, hold, open, result } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo } from '../../helpers/talk/index.js'
import { answers, ASKED_ELSEWHERE, ASKED_FIRST, askedOn, gone } from './several.js'
import { haveLeft, heard, leaves, runsAt, served, several, wakeAll } from './several.js'

const ASKING = [asks(0), hold, result]
const HELD = [open, hold, result]
const hasLink: Word = ({ response }) => expect(response.headers.link).toContain('rel="stream"')
const DONE = [result]
const CHANGED = [primer, 'tools/list_changed']

describe('an answer in a session that has moved', () => {
  conversation('finds the call that has asked, also where the session has moved twice', {
    ...several(4),
    endpoint: [ASKING, DONE, DONE, ASKING],
    client: [
      ...[wakeAll, post, take(3), leaves(0), ...served(2, 1, 1)],
      // Nothing runs there, so that it is gone before the first one.
      ...[gone(1), ...served(3, 2, 2)],
      ...[answers(0, 3), answers(0, 2), heard([0, 0], [], [], [])],
      ...[go({ run: 0 }), on(0, end), haveLeft],
      // Those that have left are not asked any more.
      ...[answers(0, 3), heard([0, 0], [], [0], [])],
      ...[post({ id: 4, at: 3 }), take(3), runsAt(2), answers(6, 3)],
      ...[heard([0, 0], [], [0, 6], []), go, on(6, end)]
    ],
    sees: [
      ...ASKED_FIRST,
      ...[...CHANGED, 'result of 2', 'end', ...CHANGED, 'result of 3', 'end', '202', '202'],
      ...['202', primer, 'ping', ASKED_ELSEWHERE, 'result of 4', 'end', '202']
    ]
  })

  conversation('finds a call of the second of three instances by way of a fourth', {
    ...several(4),
    endpoint: [ASKING, ASKING, DONE],
    client: [
      ...[wakeAll, post, take(3), leaves(0)],
      // As its session has moved there, its id says who has asked.
      ...[post({ id: 2, at: 1 }), take(4), runsAt(1), leaves(1), ...served(3, 2, 2)],
      ...[answers(1, 3), heard([], [1], [], [])],
      ...[go({ run: 0 }), go({ run: 1 }), on(0, end), on(1, end), haveLeft]
    ],
    sees: [
      ...[...ASKED_FIRST, ...CHANGED, 'ping', ASKED_ELSEWHERE, 'result of 2', 'end'],
      ...[...CHANGED, 'result of 3', 'end', '202']
    ]
  })

  const known = gate()
  const isClaimed = gate()
  /** The second one claims the session, and does not know it before `known` opens. */
  const claimsSlowly: Word = ({ members }) => {
    const backplane = members[1]!.backplane!
    const { command } = backplane
    backplane.command = async one => {
      const said = await command.call(backplane, one)
      if (!(one as readonly unknown[]).includes('NX')) return said
      isClaimed.open()
      await known.opened
      return said
    }
  }
  conversation('finds it where others knew of the move before the instance that has the session', {
    ...several(),
    endpoint: ASKING,
    client: [
      ...[wakeAll, post, take(3), leaves(0), claimsSlowly],
      ...[meanwhile(post({ id: 2, at: 1 })), () => isClaimed.opened],
      meanwhile(post({ id: 3, at: 2 })),
      // It has come there, and waits.
      until(({ members }) => members[1]!.streams.stats().backplane!['accepted']! > 0),
      ...[...upTo(50).map(() => turn), () => known.open(), arrived(3)],
      until(talk => [1, 2].every(wire => askedOn(talk, wire).length === 1)),
      talk => {
        const ids = [1, 2].flatMap(n => askedOn(talk, n))
        expect(ids).toHaveLength(2)
        expect(ids).not.toContain(askedOn(talk, 0)[0])
      },
      ...[answers(0, 2), heard([0], [], [])],
      ({ response }) => expect(response.status).toBe(202),
      ...[go({ run: 0 }), go({ run: 1 }), go({ run: 2 }), haveLeft]
    ]
  })

  conversation(
    'finds a call that came before its instance left, and is begun by its endpoint after',
    {
      ...several(),
      endpoint: [[hold, ...ASKING], DONE],
      client: [
        ...[wakeAll, meanwhile(post), arrived(1), leaves(0), ...served(2, 1, 1)],
        ...[go({ run: 0 }), on(0, take(3), hasLink)],
        ...[answers(0, 1), heard([0], [], []), go({ run: 0 }), on(0, end), haveLeft]
      ],
      sees: [...ASKED_FIRST, ...CHANGED, 'result of 2', 'end', '202']
    }
  )
})

describe('a call that is sent again under its key', () => {
  const headers = { 'idempotency-key': 'a-key-that-nobody-guesses' }
  conversation('is found where it runs, by way of any instance, after its session has moved', {
    ...several(),
    endpoint: [HELD, DONE],
    client: [
      ...[wakeAll, post({ headers }), leaves(0), ...served(2, 1, 1)],
      // It takes the place of the first connection, which it may have lost.
      ...[post({ headers, at: 2 }), on(0, end), go({ run: 0 }), end, haveLeft]
    ],
    sees: [primer, 'end', ...CHANGED, 'result of 2', 'end', primer, 'result', 'end']
  })
})

describe('a listen channel of an instance that leaves', () => {
  const CHANNEL = [open, hold]
  conversation('goes on where the session is now, by way of any instance', {
    ...several(),
    endpoint: [CHANNEL, HELD, DONE, [emit(request(5, 'ping')), hold]],
    client: [
      ...[wakeAll, listen, post, leaves(0), on(0, end), ...served(2, 1, 1)],
      // It is asked for where it was, handed back, and asked for again where the session is.
      ...[on(0, resume({ by: 'endpoint', at: 2 })), take(2), runsAt(1)],
      ...[go({ run: 1 }), on(1, end), haveLeft]
    ],
    sees: [
      ...[primer, primer, 'end', primer, 'result', 'end'],
      ...[...CHANGED, 'result of 2', 'end', primer, 'ping']
    ]
  })

  conversation('is over at its stream URL, too, for a client that has all of it', {
    ...several(),
    endpoint: [CHANNEL, HELD],
    client: [
      ...[wakeAll, listen, post, leaves(0), on(0, end), on(0, resume({ at: 1, after: null }))],
      ...[go({ run: 1 }), on(1, end), haveLeft]
    ],
    sees: [primer, primer, 'end', primer, 'result', 'end', '204']
  })

  conversation('ends where its client is connected, also if the other instance says nothing', {
    ...several(),
    // It gives no head.
    endpoint: [hold],
    client: [...[wakeAll, meanwhile(listen({ at: 1 })), arrived(1)], ...[leaves(1), end, haveLeft]],
    then: ({ response }) => expect(response.ending).toBe('end')
  })
})
