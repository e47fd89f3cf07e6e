// A client that has gone may come back, for so long; then its endpoint is told, once, and so is
// whoever comes back after all.

import { describe, expect } from '@jest/globals'
import { currentStream, type CurrentStream } from '../../../lib/index.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { happenings } from '../../helpers/happenings.js'
import { callTool } from '../../helpers/mcp.js'
import { closed, counts, cut, end, go, listen, on, turn } from '../../helpers/talk/client.js'
import { pass, post, resume, take } from '../../helpers/talk/client.js'
import { hold, note, noteOf, result, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo, type Talk } from '../../helpers/talk/index.js'

const MAX = 5000
const WORLD = {
  clock: 'stopped' as const,
  options: { resumeInterval: { min: 0, max: MAX / 1000 }, retry: 10 }
}
/** What the handler has seen of its stream, of the last call that began. */
let stream: CurrentStream
let events: string[]
const watch: Line = ({ res }) => {
  stream = currentStream()!
  events = []
  stream.signal.addEventListener('abort', () => events.push('abort'))
  for (const event of ['close', 'finish']) res.on(event, () => events.push(event))
}
const CALL = { ...WORLD, endpoint: [watch, note(1), hold, result] }
const AWAY = [post({ id: 'my call' }), take(2), cut]
const is = (state: CurrentStream['state']) => (): void => expect(stream.state).toBe(state)
const TOLD = [primer, 'error abandoned of my call', 'end']

describe('a call whose client has gone', () => {
  let abandoned: ReturnType<typeof happenings>
  conversation(
    'goes on until `resumeInterval.max`, and then its endpoint gets one close and one abort',
    {
      ...CALL,
      endpoint: [watch, note(1), hold, ({ emit }) => expect(emit(noteOf(2))).toBe(true), hold],
      client: [
        ...[...AWAY, () => (abandoned = happenings('abandoned')), pass(MAX - 1), turn],
        ({ call }) =>
          expect([events, stream.state, stream.signal.aborted, call.res.destroyed]).toEqual([
            ...[[], 'live', false, false]
          ]),
        ...[go, pass(1), closed, is('abandoned')],
        counts({ live: 0, finished: 0, bytes: 0, connections: 0 }),
        ({ call, stream: id, errors }: Talk) => {
          expect(stream.signal).toMatchObject({ aborted: true, reason: { name: 'AbortError' } })
          expect(errors).toEqual([['abandoned', id]])
          expect(abandoned).toHaveLength(1)
          // What it still does is of no consequence.
          expect(call.res.destroyed).toBe(true)
          expect(call.emit({})).toBe(false)
          call.result()
          call.res.destroy()
        },
        ...[pass(60_000), ...upTo(5).map(() => turn)]
      ],
      then: () => {
        expect(events.filter(event => event !== 'finish').sort()).toEqual(['abort', 'close'])
        expect(abandoned).toHaveLength(1)
      }
    }
  )

  conversation('answers 410 on its URL to a client that comes back too late', {
    ...CALL,
    client: [
      ...[...AWAY, pass(MAX)],
      ...[null, 'ID.0.1', 1].flatMap(after => [resume({ after }), end])
    ],
    sees: [primer, 1, ...upTo(3).map(() => '410 stream-expired')]
  })

  conversation(
    'gives a stock client that comes back too late an error for its call, and then 204',
    {
      ...CALL,
      client: [...AWAY, pass(MAX), resume({ by: 'endpoint' }), end, resume({ by: 'endpoint' })],
      sees: [primer, 1, ...TOLD, '204'],
      hears: ['tools/call', 'close']
    }
  )

  conversation('has the whole time again after each connection', {
    ...CALL,
    client: [
      ...AWAY,
      ...upTo(3).flatMap(() => [
        ...[pass(MAX - 1), resume({ after: 1 }), pass(MAX * 10), is('live'), cut]
      ]),
      ...[pass(MAX), is('abandoned')]
    ]
  })

  conversation('is never abandoned while its client is connected, however long it is silent', {
    ...CALL,
    client: [post, take(2), pass(100 * MAX), is('live'), go, end],
    sees: [primer, 1, 'result', 'end']
  })

  conversation('is abandoned also where a stranger asks for it', {
    ...CALL,
    client: [
      ...[...AWAY, pass(MAX - 1), resume({ auth: 'other' }), end],
      ...[pass(1), is('abandoned')]
    ],
    sees: [primer, 1, '404 stream-unknown']
  })

  conversation('that ends while its client is away has not been abandoned', {
    ...CALL,
    client: [
      ...[...AWAY, go, closed, pass(MAX - 1), is('completed')],
      ({ errors }) => expect([errors, stream.signal.aborted]).toEqual([[], false]),
      ...[resume, end]
    ],
    sees: [primer, 1, primer, 'result of my call', 'end']
  })
})

describe('the usual recipe, `res.on("close")`,', () => {
  conversation('ends a tool of the SDK when it is abandoned, not when its socket dies', {
    ...WORLD,
    server: 'SDK v1',
    session: 'its own',
    client: [
      post({ message: callTool(1, 'hang', { key: 'x' }) }),
      ({ endpoint }) => (endpoint.handler as ReturnType<typeof sdkV1Stateful>).log.calls.nth(1),
      ...[cut, pass(MAX - 1), turn, counts({ live: 1 })],
      ...[pass(1), counts({ live: 0 }), resume({ after: null }), end]
    ],
    sees: ['410 stream-expired']
  })
})

describe('a listen channel whose client has gone', () => {
  let channels = 0
  const one: Line = ({ res, closed, open }) => {
    if (channels > 0) return res.writeHead(409).end()
    channels++
    void closed.then(() => channels--)
    return open()
  }
  conversation('is abandoned too, and a fresh one reaches the endpoint', {
    ...WORLD,
    session: 'session',
    endpoint: [one],
    client: [
      ...[listen, cut, pass(MAX - 1), listen, cut],
      ...[pass(MAX), ({ runs }: Talk) => runs[0]!.call.closed],
      // The endpoint answers a client that resumes what is over, as it answers any GET.
      ...[on(0, resume({ by: 'endpoint', after: 'ID.0.1' })), ({ runs }: Talk) => runs.nth(3)]
    ],
    then: ({ wires }) => {
      const [first, second, fresh] = wires.map(({ response }) => response.headers['link'])
      expect(second).toBe(first)
      expect(fresh).not.toBe(first)
    }
  })
})

describe('when the server shuts down', () => {
  let down: Promise<void>
  let first: CurrentStream
  conversation(
    'a call without a client ends soon: it has as long as a client needs to come back twice',
    {
      ...CALL,
      client: [
        ...[...AWAY, () => (first = stream), post({ id: 'second' }), take(2)],
        talk => void (down = talk.streams.close()),
        ...[pass(2 * 10 + 1000 - 1), () => expect(first.state).toBe('live')],
        ...[pass(1), ({ runs }: Talk) => runs[0]!.call.closed],
        () => expect(first.state).toBe('abandoned'),
        // One with a client goes on.
        counts({ live: 1, connections: 1 }),
        ({ call }) => expect(call.isClosed).toBe(false),
        ...[go, end, closed, () => down]
      ],
      sees: [primer, 1, primer, 1, 'result of second', 'end'],
      counts: { live: 0, connections: 0, finished: 1 }
    }
  )
})
