// The newest connection wins: over a living one, over one whose wire is dead and has not said so,
// and over one that is stuck.

import { describe, expect } from '@jest/globals'
import { cut, end, go, on, post, resume, take, WAYS } from '../../helpers/talk/client.js'
import { hold, note, notes, open, result, turn } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo, type Talk } from '../../helpers/talk/index.js'

const oneConnection = (talk: Talk): void => expect(talk.stats().connections).toBe(1)

describe.each(WAYS)('a newer connection, by %s,', (_name, by) => {
  conversation(
    'takes the stream over: the older one ends cleanly, and each event goes to one of them',
    {
      endpoint: [open, notes(1, 2), hold, note(3), hold, result],
      client: [
        ...[post, take(3), resume({ by, after: 2 }), on(0, end), oneConnection],
        ...[({ call }: Talk) => expect(call.isClosed).toBe(false), go, take(2), go, end]
      ],
      sees: [primer, 1, 2, 'end', primer, 3, 'result', 'end']
    }
  )

  conversation('may have an older cursor: it gets again what went to the other', {
    endpoint: [open, notes(1, 5), hold, result],
    client: [post, take(6), resume({ by, after: 1 }), on(0, end), go, end],
    sees: [primer, 1, 2, 3, 4, 5, 'end', primer, 2, 3, 4, 5, 'result', 'end']
  })

  conversation('is taken over itself by a newer one: only the last goes on', {
    endpoint: [open, note(1), hold, result],
    client: [
      ...[post, take(2), ...upTo(5).map(() => resume({ by, after: 1 }))],
      ...[...upTo(5).map(n => on(n - 1, end)), go, end]
    ],
    sees: [primer, 1, 'end', ...upTo(4).flatMap(() => [primer, 'end']), primer, 'result', 'end'],
    counts: { resumes: 5, connections: 0 }
  })

  conversation('is slowed down where it is taken over again and again', {
    endpoint: [open, note(1), hold, note(2), result],
    client: [
      ...[post, take(2), ...upTo(7).map(() => resume({ by, after: 1 }))],
      ...upTo(5).map(n => on(n - 1, end)),
      talk => expect(talk.stats().connections).toBe(3),
      ...[go, on(5, end), on(6, end), end]
    ],
    sees: [
      ...[primer, 1, 'end', ...upTo(6).flatMap(() => [primer, 'end'])],
      ...[primer, 2, 'result', 'end']
    ],
    counts: { live: 0, connections: 0 }
  })

  describe('that meets a dead one', () => {
    const took: number[] = []
    let since: number
    const round = [
      ...[post, take(3), cut({ by: 'silence' as const })],
      // Goes into the dead wire, and the server takes it for sent.
      ...[go, oneConnection, () => (since = performance.now())],
      ...[resume({ by, after: 2 }), take(3), () => took.push(performance.now() - since), go, end]
    ]
    conversation('takes the stream over within 100 ms, and never gets a 409', {
      endpoint: [open, notes(1, 3), hold, note(4), turn, hold, result],
      client: upTo(5).flatMap(() => [...round, ({ wires }) => wires.at(-2)!.response.destroy()]),
      sees: upTo(5).flatMap(() => [primer, 1, 2, primer, 3, 4, 'result', 'end']),
      counts: { live: 0, connections: 0 },
      // Other processes may take the machine's time, but no client has to wait for anything.
      then: () => expect(Math.min(...took)).toBeLessThan(100)
    })
  })
})

describe('a connection whose client does not read', () => {
  const COUNT = 320
  const SIZE = 64 * 1024

  conversation('is taken over without waiting for the bytes in its buffers', {
    // More than the sockets between the two hold.
    endpoint: [open, hold, ...upTo(COUNT).flatMap(n => [note(n, SIZE), turn]), hold, result],
    options: { maxStreamBytes: 2 ** 26 },
    client: [
      ...[post, take(1), cut({ by: 'silence' }), go, resume({ after: null }), go, end],
      // Cut off in the middle: a clean end would look like the whole.
      on(0, async ({ response }) => {
        response.resume()
        expect(['aborted', 'error']).toContain(await response.ended)
      })
    ],
    counts: { connections: 0 },
    then: ({ wire }) =>
      expect(wire.messages.map(({ params }) => params && Number.parseInt(params.data, 10))).toEqual(
        [...upTo(COUNT), undefined]
      )
  })
})

describe('connections on different streams', () => {
  conversation('do not take each other over', {
    endpoint: [open, note(1), hold, result],
    client: [
      ...[post, post({ id: 2 }), on(0, take(2)), on(1, take(2)), on(0, resume({ after: 1 }))],
      ...[on(0, end), on(1, ({ response }) => expect(response.ending).toBeUndefined())],
      ...[go({ run: 0 }), go({ run: 1 }), end, on(1, end)]
    ],
    sees: [primer, 1, 'end', primer, 1, 'result of 2', 'end', primer, 'result', 'end']
  })
})
