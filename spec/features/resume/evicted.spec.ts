// A cursor behind the buffer is a hole, and a hole is said aloud: 410 on the stream URL, an error
// for the call of a stock client.

import { describe, expect, it } from '@jest/globals'
import { connectV1 } from '../../helpers/clients.js'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { callTool, eventId, result as resultOf, type RequestId } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { cut, end, go, listen, on, post, resume, take } from '../../helpers/talk/client.js'
import { hold, leave, note, notes, open, result, turn } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo, type Talk } from '../../helpers/talk/index.js'

const SENT = 100
const NOTES = upTo(SENT).flatMap(n => [note(n, 200), turn])
const KEPT = [open, ...NOTES, hold, note(SENT + 1), hold, result]
/** A live call of which the oldest events had to go, and that a client follows. */
const evicted = (id: RequestId = 1) => ({
  endpoint: KEPT,
  options: { maxStreamBytes: 4096 },
  begin: [
    ...[post({ id }), take(SENT + 1)],
    (talk: Talk) => expect(talk.stats().evictions).toBeGreaterThan(0)
  ],
  seen: [primer, ...upTo(SENT)]
})
/** Finished calls of which the first had to make room; event 4 is the last of each. */
const EXPIRED = {
  endpoint: [notes(1, 3), result],
  options: { maxStreams: 2 },
  begin: [
    ...[post({ id: 'first' }), end, post({ id: 2 }), end, post({ id: 3 }), end],
    (talk: Talk) => expect(talk.stats()).toMatchObject({ finished: 2, evictions: 1 })
  ],
  seen: ['first', 2, 3].flatMap(id => [primer, 1, 2, 3, `result of ${id}`, 'end'])
}
const TOLD = [primer, 'error stream-expired of first', 'end']

describe('a cursor behind the events that are kept', () => {
  conversation(
    'is 410 on the stream URL, with a JSON-RPC error; the cursors from there on resume without a gap',
    {
      ...evicted(),
      client: [
        ...evicted().begin,
        async talk => {
          const statuses: number[] = []
          for (let cursor = 0; cursor <= SENT; cursor++) {
            await resume({ after: cursor })(talk)
            const { response, stream } = talk
            statuses.push(response.status)
            if (response.status === 410) {
              const error = { code: -31000 }
              expect(await response.json()).toMatchObject({ jsonrpc: '2.0', id: null, error })
              continue
            }
            expect(await response.next()).toMatchObject({ data: '' })
            if (cursor < SENT) expect((await response.next()).id).toBe(eventId(stream, cursor + 1))
          }
          const kept = statuses.indexOf(200)
          expect(kept).toBeGreaterThan(0)
          expect(SENT - kept).toBeGreaterThanOrEqual(5)
          expect(statuses.slice(0, kept)).toEqual(upTo(kept).map(() => 410))
          expect(statuses.slice(kept)).toEqual(upTo(SENT + 1 - kept).map(() => 200))
        }
      ]
    }
  )

  conversation(
    'is 410 on the stream URL without Last-Event-ID too: the call cannot be given whole any more',
    {
      ...evicted(),
      client: [...evicted().begin, resume({ after: null }), end],
      sees: [...evicted().seen, '410 events-evicted']
    }
  )

  describe.each(['text', 7])('of the request id %j', id => {
    conversation('is an error for it on the endpoint, and then 204', {
      ...evicted(id),
      client: [
        ...[...evicted(id).begin, resume({ by: 'endpoint', after: 2 }), end],
        // Stock clients come back once more after an error: there is nothing more to say.
        ...[resume({ by: 'endpoint' }), resume({ by: 'endpoint' })]
      ],
      sees: [...evicted().seen, primer, `error events-evicted of ${id}`, 'end', '204', '204']
    })
  })

  conversation('gets its error again where the connection was cut while the error was sent', {
    ...evicted('call'),
    client: [
      ...[...evicted('call').begin, resume({ by: 'endpoint', after: 2 }), take(1), cut],
      ...[resume({ by: 'endpoint', after: 2 }), end, on(1, resume({ by: 'endpoint' })), end]
    ],
    sees: [
      ...[...evicted().seen, primer, primer, 'error events-evicted of call', 'end'],
      ...[primer, 'error events-evicted of call', 'end']
    ]
  })

  conversation('does not affect a client that is connected and has everything', {
    ...evicted(),
    client: [
      ...[...evicted().begin, resume({ after: 1 }), end, resume({ by: 'endpoint', after: 1 }), end],
      ...[go, on(0, take(1)), on(0, cut)],
      // Others have been told that their events are gone; these are not.
      ...[resume({ by: 'endpoint', after: SENT + 1 }), go, end]
    ],
    sees: [
      ...[...evicted().seen, SENT + 1, '410 events-evicted', primer, 'error events-evicted', 'end'],
      ...[primer, 'result', 'end']
    ]
  })

  conversation(
    'of a listen channel goes on with the events that are kept, as there is no call to fail',
    {
      ...evicted(),
      client: [
        ...[listen, take(SENT + 1), resume({ by: 'endpoint', after: 1 }), go],
        async ({ response }) => {
          const numbers = () => response.messages().map(m => Number.parseInt(m.params.data, 10))
          while (numbers().at(-1) !== SENT + 1) await response.next()
          const got = numbers()
          expect(got).toEqual(upTo(got.length).map(n => SENT + 1 - got.length + n))
          expect(got.length).toBeGreaterThan(5)
        }
      ]
    }
  )
})

describe('a stream whose time is over', () => {
  const gone = async ({ response }: Talk): Promise<void> =>
    expect(await response.json()).toMatchObject({ id: null, error: { code: -31000 } })

  conversation('answers 410 on the stream URL where events are missing, and 204 where none is', {
    ...EXPIRED,
    client: [
      ...EXPIRED.begin,
      ...[null, 'ID.0.1', 3].flatMap(after => [on(0, resume({ after })), gone]),
      on(0, resume({ after: 4 }))
    ],
    sees: [...EXPIRED.seen, ...upTo(3).map(() => '410 stream-expired'), '204']
  })

  conversation(
    'answers an error for the request id on the endpoint where events are missing, and then 204',
    {
      ...EXPIRED,
      client: [
        ...[...EXPIRED.begin, on(0, resume({ by: 'endpoint', after: 3 })), end],
        on(3, talk => resume({ by: 'endpoint', after: talk.wire.blocks.at(-1)!.id! })(talk)),
        // Only who has got the error has it.
        ...[on(0, resume({ by: 'endpoint', after: 3 })), end]
      ],
      sees: [...EXPIRED.seen, ...TOLD, '204', ...TOLD]
    }
  )

  conversation('answers 204 on the endpoint where no event is missing', {
    ...EXPIRED,
    client: [...EXPIRED.begin, on(0, resume({ by: 'endpoint', after: 4 }))],
    sees: [...EXPIRED.seen, '204']
  })

  conversation('answers an error for each request of a batch', {
    endpoint: [
      note(1),
      ({ message }, run) => message.forEach(({ id }: { id: string }) => run.emit(resultOf(id, {}))),
      leave
    ],
    options: { maxStreams: 1 },
    client: [
      ...[post({ message: [callTool('a', 'any'), callTool('b', 'any')] }), end],
      ...[post({ message: [callTool('c', 'any')] }), end],
      ...[on(0, resume({ by: 'endpoint', after: 1 })), end]
    ],
    sees: [
      ...[primer, 1, 'result of a', 'result of b', 'end', primer, 1, 'result of c', 'end'],
      ...[primer, 'error stream-expired of a', 'error stream-expired of b', 'end']
    ],
    counts: { evictions: 1 }
  })
})

describe('a stock client whose events are gone', () => {
  it('has its call rejected within a second', async () => {
    const endpoint = sdkV1Stateful()
    const { url } = await serve(endpoint, { maxStreamBytes: 4096 })
    const proxy = await createCutProxy({
      target: Number(new URL(url).port),
      plan: ({ message }) =>
        message?.method === 'tools/call' ? { by: 'silence', afterEvents: 3 } : undefined
    })
    let lose: () => void = () => {}
    const lost = new Promise<void>(resolve => (lose = resolve))
    const { client } = await connectV1(`${proxy.url}/mcp`, {
      fetch: async (input, init) => {
        const response = await fetch(input, init)
        if (typeof init?.body !== 'string' || !init.body.includes('tools/call')) return response
        const end = new AbortController()
        void lost.then(() => end.abort())
        return new Response(
          response.body!.pipeThrough(new TransformStream(), { signal: end.signal }),
          response
        )
      }
    })
    const args = { key: 'k', n: 60, size: 200, paced: true }
    const progress: unknown[] = []
    const result = client.callTool({ name: 'count', arguments: args }, undefined, {
      onprogress: value => progress.push(value.progress),
      timeout: 60_000
    })
    const rejected = expect(result).rejects.toMatchObject({ code: -31000 })
    endpoint.log.release('k', 2)
    await proxy.nthCut(1)
    // The wire is dead, and the server has not noticed: what it writes goes there, and makes room
    // for what follows.
    for (const n of upTo(50)) {
      endpoint.log.release('k')
      while (endpoint.log.calls[0]!.sent < 2 + n) await new Promise(setImmediate)
    }
    lose()
    await rejected
    expect(progress).toEqual([1, 2])
    // The session goes on.
    await client.ping()
  })
})
