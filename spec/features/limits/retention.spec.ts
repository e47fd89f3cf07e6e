// For how long events are kept, and what a client is told that comes later: never nothing.

import { describe, expect } from '@jest/globals'
import { createCutProxy, type Cut } from '../../helpers/cut-proxy.js'
import { get, headersFor } from '../../helpers/mcp.js'
import { closed, counts, cut, end, go, listen, on, pass } from '../../helpers/talk/client.js'
import { post, reply, resume, take } from '../../helpers/talk/client.js'
import { hold, note, notes, open, result } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo } from '../../helpers/talk/index.js'

const WINDOW = 10_000
const HOUR = 60 * 60_000
const WORLD = {
  clock: 'stopped' as const,
  options: { window: WINDOW, resumeInterval: { min: 0, max: 60 } },
  endpoint: [notes(1, 3), hold, result]
}
const GONE = '410 stream-expired'
const stock = (after?: number) => resume({ by: 'endpoint', ...(after && { after }) })

describe('a call that has ended and was delivered', () => {
  const DELIVERED = [post({ id: 'my call' }), take(4), go, end]
  const SEEN = [primer, 1, 2, 3, 'result of my call', 'end']
  const TOLD = [primer, 'error stream-expired of my call', 'end']

  conversation('can be read again within the window, from wherever', {
    ...WORLD,
    client: [...DELIVERED, pass(WINDOW - 1), resume({ after: null }), end, stock(2), end],
    sees: [...SEEN, ...SEEN, primer, 3, 'result of my call', 'end']
  })

  conversation('is gone after it: 410 on its URL, 204 for who has everything', {
    ...WORLD,
    client: [
      ...[
        ...DELIVERED,
        pass(1.5 * WINDOW),
        counts({ live: 0, finished: 0, bytes: 0, evictions: 0 })
      ],
      ...[resume({ after: null }), end],
      async ({ response }) =>
        expect(await response.json()).toMatchObject({
          ...{ jsonrpc: '2.0', id: null },
          error: { code: -31000, data: { reason: 'stream-expired' } }
        }),
      ...[resume({ after: 3 }), end, resume({ after: 4 })]
    ],
    sees: [...SEEN, GONE, GONE, '204']
  })

  conversation('is gone after it for stock clients too: an error for their call, then 204', {
    ...WORLD,
    client: [...DELIVERED, pass(1.5 * WINDOW), stock(3), end, stock(), stock(4)],
    sees: [...SEEN, ...TOLD, '204', '204']
  })

  conversation(
    'is told again to a stock client to which the wire did not bring it, wherever that was cut',
    {
      ...WORLD,
      client: [
        ...[...DELIVERED, pass(1.5 * WINDOW)],
        async ({ url, stream }) => {
          const { port } = new URL(url)
          const cuts: Cut[] = []
          const proxy = await createCutProxy({ target: Number(port), plan: () => cuts.at(-1) })
          const asked = (to: string, lastEventId = `${stream}.3`) =>
            get(to, headersFor({ version: '2025-11-25', lastEventId }))
          const whole = await asked(`${proxy.url}/mcp`)
          await whole.ended
          const length = proxy.connections[0]!.bytes.response
          const statuses: number[] = []
          // From the head's last bytes to the very end.
          for (
            let afterBytes = length - whole.bytes.length - 30;
            afterBytes <= length;
            afterBytes++
          ) {
            cuts.push({ by: 'fin', afterBytes })
            const lost = await asked(`${proxy.url}/mcp`).catch(() => undefined)
            await lost?.ended
            const again = await asked(url, lost?.blocks.at(-1)?.id)
            await again.ended
            const heard = [...(lost?.messages() ?? []), ...again.messages()]
            expect(heard).toMatchObject([
              { id: 'my call', error: { data: { reason: 'stream-expired' } } }
            ])
            expect(again.status).toBe(lost?.messages().length ? 204 : 200)
            statuses.push(again.status)
          }
          const told = statuses.filter(status => status === 204).length
          expect(told).toBeGreaterThan(0)
          expect(told).toBeLessThan(30)
        }
      ]
    }
  )

  conversation('is remembered for an hour; then it is as if it had never been', {
    ...WORLD,
    client: [
      ...[...DELIVERED, pass(HOUR), resume({ after: null }), end],
      ...[pass(2 * WINDOW), resume({ after: null }), end],
      ...[listen({ url: `http://here/mcp?stream=${'x'.repeat(21)}` }), end],
      async ({ wires }) => {
        const [late, madeUp] = wires.slice(2)
        expect(await late!.response.json()).toEqual(await madeUp!.response.json())
      },
      // At the endpoint, the endpoint answers: it is an ordinary GET.
      ...[stock(3), take(1), cut]
    ],
    sees: [...SEEN, GONE, '404 stream-unknown', '404 stream-unknown', primer],
    hears: ['tools/call', 'GET'],
    then: ({ requests }) => expect(requests[1]!.req.headers['last-event-id']).toBeUndefined()
  })
})

describe('a call that has ended while its client was away', () => {
  const AWAY = [post, take(4), cut, go, closed]

  conversation('stays as long as a running one would have', {
    ...WORLD,
    client: [...AWAY, pass(59_999), resume({ after: 2 }), end],
    sees: [primer, 1, 2, 3, primer, 3, 'result', 'end']
  })

  conversation('and then goes, explicitly', {
    ...WORLD,
    client: [
      ...[...AWAY, pass(66_000), counts({ live: 0, finished: 0, bytes: 0 })],
      ...[resume({ after: 3 }), end, stock(3), end]
    ],
    sees: [primer, 1, 2, 3, GONE, primer, 'error stream-expired', 'end']
  })
})

describe('a running call', () => {
  conversation('keeps what was written for the window, and what was not whatever its age', {
    ...WORLD,
    endpoint: [notes(1, 3), hold, note(4), hold],
    client: [
      ...[post, take(4), pass(WINDOW), resume({ after: null }), take(4), cut],
      ...[pass(WINDOW - 1), go, pass(3 * WINDOW), resume({ after: 3 }), take(2)]
    ],
    sees: [primer, 1, 2, 3, 'end', primer, 1, 2, 3, primer, 4]
  })

  conversation('tells a client that asks for what is gone', {
    ...WORLD,
    client: [
      ...[post, take(4), pass(1.5 * WINDOW), counts({ live: 1, bytes: 0 })],
      ...[resume({ after: 2 }), end, stock(2), end, stock()],
      // Who has everything goes on.
      ...[resume({ after: 3 }), go, end]
    ],
    sees: [
      ...[primer, 1, 2, 3, 'end', '410 events-evicted', primer, 'error events-evicted', 'end'],
      ...['204', primer, 'result', 'end']
    ]
  })

  conversation('keeps a request that its client has not answered, and from there on all', {
    ...WORLD,
    session: 'session',
    options: { window: WINDOW, handoff: 'never' },
    endpoint: [note(1, 100_000), (_, run) => void run.ask('ask'), note(3, 100_000), hold],
    client: [
      ...[post, take(4), cut, pass(3 * WINDOW), resume({ after: 1 }), take(3), cut],
      ...[reply('ask'), pass(3 * WINDOW), resume({ after: 1 }), end]
    ],
    sees: [primer, 1, 'asks ask', 3, primer, 'asks ask', 3, '202', '410 events-evicted']
  })
})

describe('a listen channel', () => {
  conversation('goes on after a hole, because nobody waits for a response on it', {
    ...WORLD,
    session: 'session',
    options: { window: WINDOW },
    endpoint: [open, notes(1, 3), hold, note(4), hold],
    client: [
      ...[listen, take(4), pass(1.5 * WINDOW), cut, go],
      ...[resume({ by: 'endpoint', after: 1 }), take(2), on(0, resume({ after: 1 })), end]
    ],
    sees: [primer, ...upTo(3), primer, 4, '410 events-evicted'],
    hears: ['GET']
  })
})
