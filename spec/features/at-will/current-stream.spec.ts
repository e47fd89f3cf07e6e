// `currentStream()`: inside a handler it is the stream of the request that the code works for;
// outside there is none.

import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { AsyncLocalStorage } from 'node:async_hooks'
import { EventEmitter } from 'node:events'
import { currentStream, mcpStreams, type CurrentStream } from '../../../lib/index.js'
import type { Handler } from '../../helpers/listen.js'
import { sleep } from '../../helpers/sleep.js'
import { cut, drop, end, go, on } from '../../helpers/talk/client.js'
import { post, take, turn, until, type Word } from '../../helpers/talk/client.js'
import { destroy, hold, leave, open, result } from '../../helpers/talk/endpoint.js'
import { turn as waitTurn, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, talk, type Talk, type World } from '../../helpers/talk/index.js'

/** Notes what the code of a handler sees. */
const noting = () => {
  const seen: unknown[] = []
  const note: Line = () => seen.push(currentStream()?.id)
  return { seen, note }
}
const streamOf = ({ wires }: Talk, n = 0): string =>
  /stream=([\w-]{21})/.exec(`${wires[n]!.response.headers.link}`)![1]!

describe.each<[server: NonNullable<World['server']>, world: World]>([
  ['SDK v1', { session: 'its own' }],
  ['SDK v1 stateless', { version: '2025-06-18' }],
  ['SDK v2', { session: 'its own' }],
  ['SDK v2 handler', {}],
  ['SDK v2 handler', { version: '2026-07-28', prefer: 'rel=stream' }]
])('in a tool of %s, %j', (server, world) => {
  const { seen, note } = noting()
  conversation('is the stream that its client can resume', {
    ...{ server, ...world },
    endpoint: [
      () => {
        const { state, signal } = currentStream()!
        expect([state, signal.aborted]).toEqual(['live', false])
      },
      ...[note, waitTurn, note, result]
    ],
    client: [made => Promise.all([post(made), post({ id: 2 })(made)]), on(0, end), end],
    then: made => {
      const [one, other] = [streamOf(made), streamOf(made, 1)]
      expect(one).not.toBe(other)
      expect([...seen].sort()).toEqual([one, one, other, other].sort())
    }
  })
})

describe('currentStream() outside of a call', () => {
  it('is undefined', () => {
    expect(currentStream()).toBeUndefined()
    expect(mcpStreams().current()).toBeUndefined()
  })

  const bare = noting()
  conversation('is undefined in a handler on a route without the middleware', {
    app: (streams, endpoint) =>
      express()
        .use('/mcp', streams)
        .all('/bare', endpoint as RequestHandler),
    path: '/bare',
    endpoint: [bare.note, result],
    client: [post, end],
    then: () => expect(bare.seen).toEqual([undefined])
  })

  const before = noting()
  let made: Talk
  conversation('is undefined after the head of a response that becomes no stream', {
    endpoint: [
      // Before the head nobody can know.
      before.note,
      ({ res }) => res.writeHead(200, { 'Content-Type': 'application/json' }),
      ...[before.note, () => before.seen.push(made.streams.current())],
      ({ res }) => res.end('{"jsonrpc":"2.0","id":1,"result":{}}')
    ],
    client: [t => (made = t), post, end],
    sees: ['json', 'result'],
    then: () => expect(before.seen).toEqual([expect.anything(), undefined, undefined])
  })

  const left = noting()
  conversation('is undefined where the streams are left to the endpoint', {
    options: { eventStore: 'leave' },
    endpoint: [({ write }) => write('id: 1\ndata: {}\n\n'), left.note, result],
    client: [post, end],
    then: () => expect(left.seen).toEqual([undefined])
  })
})

describe('currentStream() inside of a call', () => {
  const { seen, note } = noting()
  const push = () => void seen.push(currentStream()?.id)
  conversation('follows the code through promises, timers and emitters', {
    endpoint: [
      ...[note, waitTurn, note],
      () => new Promise<void>(resolve => setTimeout(() => resolve(push()), 1)),
      () => process.nextTick(push),
      () => sleep(1),
      () => new EventEmitter().on('x', push).emit('x'),
      ...[result, note]
    ],
    client: [post, end, turn],
    then: made => expect(seen).toEqual(Array(6).fill(streamOf(made)))
  })

  it('is of the one instance that the request came through', async () => {
    const other = mcpStreams()
    const seen: (string | undefined)[][] = []
    const made: Talk = await talk({
      app: (streams, endpoint) => {
        const handle = endpoint as RequestHandler
        return express()
          .use('/one', streams)
          .all('/one', handle)
          .use('/two', other)
          .all('/two', handle)
      },
      path: '/one',
      endpoint: [
        () => seen.push([currentStream()?.id, made.streams.current()?.id, other.current()?.id]),
        result
      ]
    })
    await made.plays(post, end, post({ url: made.url.replace('one', 'two') }), end)
    const [one, two] = [streamOf(made), streamOf(made, 1)]
    expect(seen).toEqual([
      [one, one, undefined],
      [two, undefined, two]
    ])
    await other.close({ drain: 0 })
  })

  it('is of the outer instance where two are mounted in a row', async () => {
    const inner = mcpStreams()
    const seen: unknown[] = []
    const made: Talk = await talk({
      app: (streams, endpoint) =>
        express()
          .use('/mcp', streams, inner)
          .all('/mcp', endpoint as RequestHandler) as Handler,
      endpoint: [() => seen.push(made.streams.current()?.id, inner.current()?.id), result]
    })
    await made.plays(post, end)
    expect(seen).toEqual([streamOf(made), undefined])
    expect(made.response.headers.link).not.toContain(',')
    await inner.close({ drain: 0 })
  })
})

describe('state and signal', () => {
  /** The stream that the handler got, and its signals: before its head, and after it. */
  let stream: CurrentStream
  let signals: AbortSignal[]
  const WATCHED = {
    options: { retry: 20 },
    endpoint: [
      () => {
        stream = currentStream()!
        signals = [stream.signal]
      },
      open,
      () => signals.push(stream.signal),
      hold,
      result
    ]
  }
  const are =
    (state: CurrentStream['state'], aborted: boolean): Word =>
    () =>
      expect([stream.state, ...signals.map(signal => signal.aborted)]).toEqual([
        state,
        aborted,
        aborted
      ])

  conversation('are those of a live stream, whether a client is connected or not', {
    ...WATCHED,
    client: [post, take(1), are('live', false), cut({ by: 'rst' }), are('live', false)]
  })

  conversation('do not take a completed stream for an aborted one', {
    ...WATCHED,
    client: [post, go, end, ({ call }) => call.closed, are('completed', false)],
    then: () => expect(stream.signal.aborted).toBe(false)
  })

  describe.each<[state: CurrentStream['state'], how: string, words: Word[], line: Line]>([
    ['cancelled', 'DELETE of the stream URL', [drop], result],
    ['failed', 'an endpoint that ends without a response', [go], leave],
    ['failed', 'an endpoint that destroys its response', [go], destroy],
    ['abandoned', 'a client that does not come back', [cut], result]
  ])('%s', (state, how, words, line) => {
    conversation(`is said after ${how}, also to who asked before the head`, {
      options: { retry: 20, resumeInterval: { max: 0.03 } },
      endpoint: [...WATCHED.endpoint.slice(0, -1), line],
      client: [
        ...[post, take(1), ...words, until(() => signals.every(signal => signal.aborted))],
        ...[are(state, true), ({ call }: Talk) => call.closed]
      ],
      then: () => {
        const reason = { name: 'AbortError', message: `The stream was ${state}` }
        for (const signal of [...signals, stream.signal])
          expect(signal.reason).toMatchObject(reason)
      }
    })
  })

  const states: unknown[] = []
  conversation('are independent of other calls', {
    endpoint: [
      [open, hold],
      [
        async (_call, run) => {
          const own = currentStream()!
          await run.hold()
          states.push(own.state, own.signal.aborted)
        },
        result
      ]
    ],
    client: [
      ...[post, (made: Talk) => void post({ id: 2 })(made), ({ runs }: Talk) => runs.nth(2)],
      ...[on(0, drop), go({ run: 1 }), on(1, end)]
    ],
    then: () => expect(states).toEqual(['live', false])
  })
})

const calls = new AsyncLocalStorage<string>()
const inside: (string | undefined)[] = []
conversation('a connection that is kept alive is written to outside of other calls', {
  options: { keepAlive: 20 },
  inFront: [
    (req, res, next) => {
      const { write } = res
      res.write = (...args: unknown[]) => {
        if (Buffer.from(args[0] as Uint8Array).at(0) === 0x3a) inside.push(calls.getStore())
        return Reflect.apply(write, res, args) as boolean
      }
      calls.run(req.get('Authorization')!, next)
    }
  ],
  endpoint: [open, hold],
  client: [post({ auth: 'one' }), post({ auth: 'two' }), until(() => inside.length >= 4)],
  sees: [],
  then: () => expect(new Set(inside)).toEqual(new Set([undefined]))
})
