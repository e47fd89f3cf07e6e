// `close()`: for a restart. Calls that run are finished where they are; who listens goes elsewhere;
// what takes too long is told so.

import { describe, expect, it } from '@jest/globals'
import type { Server } from 'node:http'
import {
  type CloseOptions,
  currentStream,
  type CurrentStream,
  mcpStreams
} from '../../../lib/index.js'
import { arrival, happenings } from '../../helpers/happenings.js'
import { callTool, initializeSession } from '../../helpers/mcp.js'
import { close, closed, counts, cut, end, go, listen } from '../../helpers/talk/client.js'
import { on, post, reply, resume, take, turn } from '../../helpers/talk/client.js'
import { until, wait, type Word } from '../../helpers/talk/client.js'
import { ask, hold, json, note, notes, open, result } from '../../helpers/talk/endpoint.js'
import { type Line } from '../../helpers/talk/endpoint.js'
import { conversation, play, primer, talk, upTo, type Talk } from '../../helpers/talk/index.js'
import { open as openWire, requestText } from '../hardening/wire.js'
import { QUICK } from '../hand-off/asking.js'

const HELD = { endpoint: [note(1), hold, note(2), result] }
/** Longer than the grace of half a second for sockets, shorter than calls are waited for. */
const SOON = 15_000
const OLDER = { version: '2025-06-18' }
const closing = (id: number) => ({
  jsonrpc: '2.0',
  id,
  error: { code: -31000, message: 'The server is shutting down', data: { reason: 'closing' } }
})
const LOST = [primer, 1, closing(1), 'end']
const nobody = until(talk => talk.stats().connections === 0)
const closedServer = (server: Server) => new Promise<void>(resolve => server.close(() => resolve()))

/** `close()`, which is not waited for until `isDown`. */
let down: Promise<unknown>
const begin =
  (options?: CloseOptions): Word =>
  ({ streams }) =>
    void (down = streams.close(options))
const isDown: Word = () => down
/** As on SIGTERM: until the server has let go of its last socket, soon. */
const shutDown =
  (options?: CloseOptions): Word =>
  ({ streams, server }) => {
    const start = performance.now()
    down = Promise.all([closedServer(server), streams.close(options)]).then(() =>
      expect(performance.now() - start).toBeLessThan(SOON)
    )
  }

describe('close(): running calls', () => {
  describe.each<[client: string, world: object, begun: Word[]]>([
    ['of 2025-03-26', { version: '2025-03-26' }, [post, take(2)]],
    ['of 2025-06-18', OLDER, [post, take(2)]],
    ['of 2025-11-25', {}, [post, take(2)]],
    [
      'of 2026-07-28 that has announced itself',
      { version: '2026-07-28', prefer: 'rel=stream' },
      [post, take(2)]
    ],
    ['that has come back before', {}, [post, take(2), resume({ after: null }), take(2)]]
  ])('one %s', (_client, world, begun) => {
    conversation('are finished on their connection', {
      ...{ ...HELD, ...world },
      client: [
        ...[...begun, shutDown(), turn, turn, turn],
        ({ call, response }) =>
          expect([call.isClosed, response.ending]).toEqual([false, undefined]),
        ...[go, isDown, end]
      ],
      then: talk => {
        expect(talk.words().slice(-5)).toEqual([primer, 1, 2, 'result', 'end'])
        // Not one reconnection time more than the first, and no end but that.
        const retries = talk.wire.blocks.filter(({ retry }) => retry !== undefined)
        expect(retries.length).toBeLessThan(2)
      }
    })
  })

  conversation('are finished, also a hundred of them', {
    endpoint: [note(1), hold, result],
    client: [
      ...upTo(100).flatMap(id => [post({ id, ...(id % 2 ? OLDER : {}) }), take(2)]),
      ...[shutDown(), ...upTo(100).map(n => go({ run: n - 1 })), isDown],
      ...upTo(100).map(n => on(n - 1, end))
    ],
    sees: upTo(100).flatMap(id => [primer, 1, id === 1 ? 'result' : `result of ${id}`, 'end']),
    counts: { live: 0, connections: 0, finished: 100 }
  })

  let stream = currentStream()
  conversation('are not disconnected at will, neither by their handler nor by their age', {
    options: { disconnectAfter: 150 },
    endpoint: [() => (stream = currentStream()), note(1), hold, result],
    client: [
      ...[post, take(2), shutDown(), () => stream!.disconnect(), wait(200)],
      ...[counts({ connections: 1 }), go, isDown, end]
    ],
    sees: [primer, 1, 'result', 'end']
  })

  let notices: ReturnType<typeof happenings>
  conversation(
    'that ask their clients something are not handed off: the connection stays until the answer is there',
    {
      prefer: 'rel=stream',
      options: { ...QUICK, upgradeAfter: 50 },
      endpoint: [hold, ask('who'), result],
      client: [
        ...[() => void (notices = happenings('waiting')), post, begin(), go, take(2)],
        // Much longer than it has to be quiet.
        ...[wait(50), counts({ connections: 1 }), reply('who'), on(0, end), isDown]
      ],
      sees: [primer, 'asks who', 'result', 'end', '202'],
      then: () => expect(notices).toHaveLength(0)
    }
  )

  conversation('can still be resumed meanwhile', {
    endpoint: [note(1), hold, result],
    client: [
      ...[post, take(2), begin(), cut, resume({ by: 'endpoint' }), take(1)],
      ...[({ response }: Talk) => expect(response.ending).toBeUndefined(), go, end, isDown]
    ],
    sees: [primer, 1, primer, 'result', 'end']
  })

  it('are waited for where they share a socket with one that has been answered', async () => {
    const made = await talk({ endpoint: [note(1), hold, result] })
    const { socket } = openWire(Number(new URL(made.url).port))
    for (const id of [1, 2]) socket.write(requestText({ headers: made.headers }, callTool(id, 'x')))
    await made.runs.nth(2)
    await made.plays(shutDown(), go({ run: 0 }), ...upTo(5).map(() => turn))
    expect(socket.destroyed).toBe(false)
    await made.plays(go({ run: 1 }), isDown)
  })

  const KEYED = { headers: { 'idempotency-key': 'a-key-of-its-own-4711' } }
  it('under a key are waited for, and answer repetitions', async () => {
    const made = await talk({ endpoint: [hold, json({})] })
    const both = [post(KEYED)(made), post(KEYED)(made)]
    await made.runs.nth(1)
    await made.until(() => made.stats().keyed === 1)
    await made.plays(begin(), go)
    await Promise.all(both)
    await made.plays(on(0, end), on(1, end), isDown)
    expect(made.words()).toEqual(['json', 'result', 'json', 'result'])
    expect(made.runs).toHaveLength(1)
  })

  it('under a key, when the time is up, are answered to their own client alone', async () => {
    const made = await talk({ endpoint: [hold, json({})] })
    const first = post(KEYED)(made)
    const { call } = await made.runs.nth(1)
    const arrived = arrival(made.server)
    const again = post(KEYED)(made)
    await arrived
    await made.plays(close({ drain: 0 }))
    // Whoever would run it elsewhere must not: it runs here.
    await again
    await made.plays(end)
    expect(made.words()).toEqual(['409 answer-lost'])
    expect(call.isClosed).toBe(false)
    await made.plays(go)
    await first
    await made.plays(on(0, end), closed)
    expect(made.words()).toEqual(['json', 'result', '409 answer-lost'])
  })
})

describe('close(): when the time is up', () => {
  let failed: ReturnType<typeof happenings>
  conversation('each client is told that its call is lost', {
    endpoint: [note(1), hold],
    client: [
      () => void (failed = happenings('failed')),
      ...upTo(21).flatMap(id => [
        ...[post({ id, ...[{}, OLDER, { version: '2025-11-25' }][id % 3] }), take(2)]
      ]),
      ...[shutDown({ drain: 20 }), isDown, ...upTo(21).map(n => on(n - 1, end))],
      ({ runs }) => Promise.all(runs.map(({ call }) => call.closed))
    ],
    sees: upTo(21).flatMap(id => [primer, 1, closing(id), 'end']),
    then: ({ errors, wires }) => {
      const ids = wires.map(
        ({ response }) => /stream=([\w-]{21})/.exec(`${response.headers.link}`)![1]
      )
      expect(errors).toEqual(ids.map(id => ['closing', id]))
      expect(failed.map(({ reason }) => reason)).toEqual(Array(21).fill('closing'))
    }
  })

  conversation('a second call of close() may shorten the time, and never lengthens it', {
    endpoint: [note(1), hold],
    client: [
      ...[post, take(2)],
      ({ streams }) =>
        Promise.all([
          streams.close({ drain: 60_000 }),
          streams.close({ drain: 0 }),
          streams.close()
        ]),
      end
    ],
    sees: LOST
  })
})

describe('close', () => {
  const WHOLE = 'close: option `drain` must be a whole number of milliseconds, 0 or more'
  it.each<[options: unknown, fault: string]>([
    [null, 'close: options must be an object'],
    [20, 'close: options must be an object'],
    [{ wait: 1 }, 'close: unknown option `wait`'],
    [{ drain: -1 }, WHOLE],
    [{ drain: '20 s' }, WHOLE],
    [{ drain: 0.5 }, WHOLE],
    [{ drain: Infinity }, WHOLE]
  ])('throws for %j', async (options, fault) => {
    const streams = mcpStreams()
    expect(() => streams.close(options as CloseOptions)).toThrow(new TypeError(fault))
    await streams.close({ drain: undefined })
  })

  conversation('disconnects listen channels at once, each with another `retry`', {
    options: { retry: 1000 },
    endpoint: [open, hold],
    client: [
      ...upTo(200).flatMap(n => [listen({ session: `session ${n}` }), take(1)]),
      counts({ live: 200, listening: 200, answering: 0, connections: 200 }),
      ...[shutDown(), isDown, ...upTo(200).map(n => on(n - 1, end))]
    ],
    sees: upTo(200).flatMap(() => [primer, primer, 'end']),
    ids: upTo(200).flatMap(() => ['0.1', '0.2']),
    counts: { connections: 0 },
    then: ({ wires }) => {
      const last = wires.map(({ blocks }) => blocks.at(-1)!)
      for (const { id, raw, retry } of last)
        expect(raw).toBe(`id: ${id}\nretry: ${retry}\ndata:\n\n`)
      const retries = new Set(last.map(({ retry }) => retry!))
      expect(Math.min(...retries)).toBeGreaterThanOrEqual(800)
      expect(Math.max(...retries)).toBeLessThanOrEqual(1200)
      // A herd that comes back as one would be a second outage.
      expect(retries.size).toBeGreaterThan(50)
    }
  })

  conversation('tells calls from listen channels', {
    endpoint: [open, hold, result],
    client: [
      ...[listen({ session: 's' }), post, counts({ live: 2, answering: 1, listening: 1 })],
      ...[begin(), on(0, end), ({ response }: Talk) => expect(response.ending).toBeUndefined()],
      ...[go, end, isDown]
    ],
    sees: [primer, primer, 'end', primer, 'result', 'end']
  })

  conversation('closes the listen channels of sessions, with an id to come back with', {
    ...{ server: 'SDK v1', session: 'its own' },
    client: [
      async talk => {
        const { headers } = await initializeSession(talk.url, '2025-06-18')
        await talk.plays(listen, take(1), listen({ headers }), take(1))
      },
      ...[shutDown(), isDown, on(0, end), end]
    ],
    // Nobody has asked for a response: there is none that an error could take the place of.
    then: ({ wires }) => {
      for (const { ending, messages } of wires) expect([ending, messages]).toEqual(['end', []])
      expect(wires[0]!.blocks.at(-1)!.raw).toMatch(/^id: [\w-]{21}\.0\.2\nretry: \d+\ndata:\n\n$/)
    }
  })

  let closes: () => void
  const closesNow: Line = () => closes()
  const closing0: Word = ({ streams }) => void (closes = () => void streams.close({ drain: 0 }))
  conversation('delivers pending events before it disconnects', {
    endpoint: [notes(1, 100), closesNow, hold],
    client: [closing0, post, end],
    sees: [primer, ...upTo(100), closing(1), 'end']
  })

  conversation('does not forget a stream whose first connection is still on its way', {
    endpoint: [open, closesNow, hold],
    client: [
      ...[closing0, post, end],
      async ({ server }) => {
        const start = performance.now()
        await closedServer(server)
        expect(performance.now() - start).toBeLessThan(SOON)
      }
    ],
    sees: [primer, closing(1), 'end']
  })

  conversation('resolves at once where nothing is open, and may be called any number of times', {
    endpoint: [note(1), hold],
    client: [
      ...[() => mcpStreams().close(), post, take(2)],
      ({ streams }) => Promise.all([streams.close({ drain: 0 }), streams.close({ drain: 0 })]),
      ...[close(), end]
    ],
    sees: LOST
  })
})

describe('close(): a client that never reads', () => {
  const SIZE = 64 * 1024
  const data = `data: {"data":"${'x'.repeat(SIZE)}"}\n\n`
  // More than all the buffers on the way take.
  const flood: Line = ({ write }) => {
    for (let i = 0; i < 128; i++) write(data)
  }
  let stream: CurrentStream
  const mute: Word = ({ response }) => void response.pause()
  const isFull = until(talk => talk.stats().bytes > 128 * SIZE)

  describe.each([
    ['that comes back', {}],
    ['that does not', OLDER]
  ])('%s', (_name, client) => {
    it('does not delay it', async () => {
      const made = await talk({ ...client, endpoint: [open, flood, hold] })
      await made.plays(post, mute, isFull, post({ id: 2 }))
      const { response: reader } = made
      for (let i = 0; i < 128; i++) await reader.nextMessage()
      await made.plays(shutDown({ drain: 0 }), isDown)
      // One that reads is not cut off because another does not: it hears what it is to do now.
      expect(await reader.ended).toBe('end')
      expect(reader.messages().at(-1)).toEqual(closing(2))
    })
  })

  conversation('that has been disconnected at will before does not delay it', {
    endpoint: [
      ...[() => (stream = currentStream()!), open, flood],
      ...[() => new Promise(setImmediate), () => stream.disconnect(), hold]
    ],
    client: [post, mute, isFull, turn, shutDown({ drain: 0 }), isDown]
  })

  conversation('whose stream has been taken over or has ended does not delay it', {
    endpoint: [open, flood, hold],
    client: [
      ...[post, mute, resume({ after: null }), mute, post({ id: 2 }), mute],
      ...[until(talk => talk.stats().live === 2), shutDown({ drain: 0 }), isDown]
    ]
  })
})

describe('after close', () => {
  conversation('kept events can still be fetched, and connections end at once', {
    endpoint: [note(1), hold, result],
    client: [
      ...[post, take(2), begin(), cut, go, isDown, resume({ by: 'endpoint' }), end],
      async ({ response: { socket } }) => {
        if (!socket.destroyed) await new Promise(resolve => socket.once('close', resolve))
      }
    ],
    sees: [primer, 1, primer, 'result', 'end']
  })

  conversation('responses pass as they would without the middleware', {
    endpoint: [note(1), () => expect(currentStream()).toBeUndefined(), result],
    client: [close({ drain: 0 }), post, end],
    sees: [1, 'result', 'end'],
    then: ({ response: { headers, blocks } }) => {
      expect(headers.link).toBeUndefined()
      for (const { id, retry } of blocks) expect([id, retry]).toEqual([undefined, undefined])
    }
  })

  it('a stream without a client is abandoned soon, so that its handler does not hold the process', async () => {
    const abandoned = happenings('abandoned')
    const options = { retry: 10 }
    const made = await play({
      options,
      endpoint: [note(1), hold],
      client: [post, take(2), cut, nobody]
    })
    const start = performance.now()
    // Which is waited for, too.
    await made.plays(close())
    expect(made.call.isClosed).toBe(true)
    // Twice the reconnection time, as clients try, and a second on top.
    expect(performance.now() - start).toBeGreaterThan(1000)
    expect((await abandoned.nth(1)).streamId).toBe(made.stream)
  })
})

describe('a handler', () => {
  it.each([
    ['goes on', undefined, 'live', false],
    ['is told when the time is up that nobody reads what it makes', 0, 'failed', true]
  ])('%s', async (_name, drain, state, aborted) => {
    let stream = currentStream()!
    const made = await talk({
      endpoint: [
        ...[() => (stream = currentStream()!), note(1), () => new Promise(setImmediate)],
        () => void made.streams.close({ drain }),
        () => expect([stream.state, stream.signal.aborted]).toEqual([state, aborted]),
        result
      ]
    })
    await made.plays(post, end)
    expect(made.run.faults).toEqual([])
  })

  conversation('of SDK v2 at 2026-07-28 goes on, too, where its client has announced itself', {
    ...{ server: 'SDK v2 handler', version: '2026-07-28', prefer: 'rel=stream' },
    endpoint: [open, hold, note(1), result],
    client: [post, take(1), begin(), go, end, isDown],
    then: talk => expect(talk.words().slice(-3)).toEqual([1, 'result', 'end'])
  })
})
