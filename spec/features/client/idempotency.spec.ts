// The server's half: a POST with a key that is known attaches to what the first one started, and
// nothing runs twice.

import { describe, expect, it, jest } from '@jest/globals'
import compression from 'compression'
import express, { type RequestHandler } from 'express'
import { once } from 'node:events'
import { request } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { gate } from '../../helpers/gate.js'
import {
  rawEndpoint,
  type RawCall,
  type RawEndpoint,
  type RawScript
} from '../../helpers/endpoints/raw.js'
import { arrival, until } from '../../helpers/happenings.js'
import {
  callTool,
  ended,
  headersFor,
  notification,
  post,
  result,
  withEnvelope
} from '../../helpers/mcp.js'
import { serve, type Served } from '../../helpers/serve.js'
import { sleep } from '../../helpers/sleep.js'
import { stopTheClock } from '../limits/setup.js'

const KEY = 'a-key-that-nobody-guesses'
const CALL = callTool(1, 'any')
const NOTE = notification('notifications/message', { level: 'info', data: 'on its way' })

const keyed = (more: Record<string, string> = {}): Record<string, string> => ({
  ...headersFor({ version: '2025-11-25', prefer: 'rel=stream' }),
  'idempotency-key': KEY,
  ...more
})

interface Mounted extends Served {
  calls: RawEndpoint['calls']
}

/** A hand-written endpoint behind the middleware, and the calls that have reached it. */
async function mount(
  script: RawScript,
  options: McpStreamsOptions = {},
  inFront: RequestHandler[] = []
): Promise<Mounted> {
  const endpoint = rawEndpoint(script)
  return {
    ...(await serve(endpoint, { retry: 5, resumeInterval: { min: 0 }, ...options }, inFront)),
    calls: endpoint.calls
  }
}

/**
 * Sends the call, and goes away without having read a byte of the answer. Resolves when the server
 * has learned of it.
 */
async function sendAndVanish(
  { url, server }: Served,
  by: 'fin' | 'rst',
  arrived: Promise<unknown>,
  body: unknown = CALL
): Promise<void> {
  const accepted = once(server, 'connection') as Promise<[Socket]>
  const outgoing = request(url, {
    method: 'POST',
    agent: false,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...keyed()
    }
  })
  outgoing.on('error', () => undefined)
  outgoing.end(JSON.stringify(body))
  await arrived
  const [socket] = await accepted
  if (by === 'rst') outgoing.socket?.resetAndDestroy()
  else outgoing.destroy()
  await until(() => socket.closed)
}

const json = (call: RawCall, value: unknown, status = 200): void => {
  call.res.writeHead(status, { 'Content-Type': 'application/json', 'X-Custom': 'kept' })
  call.res.end(JSON.stringify(value))
}

describe('a POST that is repeated under its Idempotency-Key', () => {
  it('takes over the running stream, from its start', async () => {
    const { url, calls, streams } = await mount(call => void call.emit(NOTE))
    const first = await post(url, CALL, keyed())
    expect(first.headers['preference-applied']).toBe('rel=stream')
    await first.nextMessage()
    const second = await post(url, CALL, keyed())
    expect(await first.ended).toBe('end')
    expect(second.headers.link).toBe(first.headers.link)
    expect(await second.nextMessage()).toEqual(NOTE)
    calls[0]!.result('done')
    await second.ended
    expect(second.messages()).toEqual([NOTE, result(1, 'done')])
    expect(calls.length).toBe(1)
    expect(streams.stats().resumes).toBe(1)
  })

  it('reads the finished stream, any number of times', async () => {
    const { url, calls } = await mount(call => call.result('done'))
    for (let i = 0; i < 3; i++) {
      const answer = await ended(post(url, CALL, keyed()))
      expect(answer.messages()).toEqual([result(1, 'done')])
    }
    expect(calls.length).toBe(1)
  })

  it.each([200, 400, 404, 500])('gets the same answer in JSON, status %d', async status => {
    const { url, calls } = await mount(call => json(call, { n: calls.length }, status))
    const answers = [await post(url, CALL, keyed()), await post(url, CALL, keyed())]
    for (const answer of answers) {
      await answer.ended
      expect([answer.status, answer.text]).toEqual([status, '{"n":1}'])
      expect(answer.headers).toMatchObject({
        'content-type': 'application/json',
        'x-custom': 'kept',
        'preference-applied': 'rel=stream'
      })
    }
    expect(calls.length).toBe(1)
  })

  it('gets the same answer, whichever way the endpoint has written it', async () => {
    const ways: ((res: RawCall['res']) => unknown)[] = [
      res => res.setHeader('Content-Type', 'application/json').end('{"a":1}'),
      res => {
        res.setHeader('Content-Type', 'application/json')
        res.write('{"a"')
        res.write(Buffer.from(':'))
        res.end('1}')
      },
      res =>
        res
          .writeHead(200, 'Fine', ['Content-Type', 'application/json', 'Content-Length', '7'])
          .end(Buffer.from('{"a":1}')),
      res => {
        res.statusCode = 200
        res.writeHead(200, { 'content-type': 'application/json' })
        Readable.from([Buffer.from('{"a"'), ':1}']).pipe(res)
      },
      res => (res as unknown as { json(value: unknown): void }).json({ a: 1 })
    ]
    for (const way of ways) {
      const { url, calls } = await mount(({ res }) => void way(res))
      for (const answer of [await post(url, CALL, keyed()), await post(url, CALL, keyed())]) {
        await answer.ended
        expect([answer.headers['content-type']?.split(';')[0], answer.text]).toEqual([
          'application/json',
          '{"a":1}'
        ])
      }
      expect(calls.length).toBe(1)
    }
  })

  it.each<[string, (call: RawCall) => void, (text: string) => unknown]>([
    ['JSON', call => json(call, result(1, 'done')), text => JSON.parse(text)],
    [
      'a stream',
      call => call.result('done'),
      text => JSON.parse(/^data: (.*"result".*)$/m.exec(text)![1]!)
    ]
  ])('waits for the answer of the first one: %s', async (_name, answer, read) => {
    const { url, server, calls } = await mount(() => undefined)
    const first = post(url, CALL, keyed())
    const call = await calls.nth(1)
    const others = []
    for (let i = 0; i < 2; i++) {
      const arrived = arrival(server)
      others.push(post(url, CALL, keyed()))
      await arrived
    }
    answer(call)
    const [, ...repeated] = await Promise.all([first, ...others])
    // Of those that follow one stream, the newest has it.
    const endings = await Promise.all(repeated.map(async one => (await one.ended, one.text)))
    expect(endings.map(text => text.includes('"done"')).some(Boolean)).toBe(true)
    expect(read(endings.find(text => text.includes('"done"'))!)).toEqual(result(1, 'done'))
    expect(calls.length).toBe(1)
  })

  it('reaches the endpoint once where it is a notification', async () => {
    const { url, calls } = await mount(call => void call.res.writeHead(202).end())
    for (let i = 0; i < 2; i++) expect((await post(url, NOTE, keyed())).status).toBe(202)
    expect(calls.length).toBe(1)
  })

  it.each([
    ['in front', true],
    ['behind', false]
  ])('is recognised with a body parser %s', async (_name, isInFront) => {
    const endpoint = rawEndpoint(call => json(call, call.message))
    const parse = express.json()
    const behind: RequestHandler = (req, res, next) =>
      parse(req, res, (error?: unknown) =>
        error === undefined ? void endpoint(req, res) : next(error)
      )
    const handler = (isInFront ? endpoint : behind) as RawEndpoint
    const { url } = await serve(handler, {}, isInFront ? [parse] : [])
    for (let i = 0; i < 2; i++) {
      const answer = await ended(post(url, CALL, keyed()))
      expect(JSON.parse(answer.text)).toEqual(CALL)
    }
    expect(endpoint.calls.length).toBe(1)
  })

  it('gets a readable answer, also behind `compression`', async () => {
    const text = JSON.stringify(result(1, 'x'.repeat(5000)))
    for (const write of [
      (res: RawCall['res']) => res.end(text),
      (res: RawCall['res']) => void (res.write(text.slice(0, 9)), res.end(text.slice(9)))
    ]) {
      const { url, calls } = await mount(
        ({ res }) => void write(res.setHeader('Content-Type', 'application/json')),
        {},
        [compression({ threshold: 0 }) as RequestHandler]
      )
      const init = {
        method: 'POST',
        headers: { ...keyed(), 'content-type': 'application/json' },
        body: JSON.stringify(CALL)
      }
      for (let i = 0; i < 2; i++) {
        const answer = await fetch(url, init)
        expect(answer.headers.get('content-encoding')).toBeTruthy()
        expect(await answer.text()).toBe(text)
      }
      expect(calls.length).toBe(1)
    }
  })
})

describe('a client that has disconnected before the response head', () => {
  it.each<['fin' | 'rst', string, (call: RawCall) => unknown]>([
    ['fin', 'JSON', call => json(call, result(1, 'done'))],
    ['rst', 'JSON', call => json(call, result(1, 'done'))],
    ['fin', 'a stream', call => call.result('done')],
    ['rst', 'a stream', call => call.result('done')],
    [
      'rst',
      'a stream that is ended in one go',
      ({ res }) =>
        res
          .setHeader('Content-Type', 'text/event-stream')
          .end(`data: ${JSON.stringify(result(1, 'done'))}\n\n`)
    ]
  ])('by %s gets the answer under its key when it comes back: %s', async (by, _name, answer) => {
    const served = await mount(() => undefined)
    const { url, calls } = served
    await sendAndVanish(served, by, calls.nth(1))
    const [call] = calls
    expect(call!.isClosed).toBe(false)
    expect([call!.res.destroyed, call!.res.writableEnded]).toEqual([false, false])
    // Once while it is undecided, and once when it is not.
    const arrived = arrival(served.server)
    const waiting = post(url, CALL, keyed())
    await arrived
    answer(call!)
    for (const repeated of [await waiting, await post(url, CALL, keyed())]) {
      await repeated.ended
      expect(repeated.text).toContain('"result":"done"')
    }
    await call!.closed
    expect(calls.length).toBe(1)
  })

  it('gets a JSON answer whose endpoint waits for `drain` of the dead socket', async () => {
    const chunk = `${'x'.repeat(1023)}\n`
    const served = await mount(() => undefined)
    const { url, calls } = served
    await sendAndVanish(served, 'rst', calls.nth(1))
    const { res } = calls[0]!
    res.writeHead(200, { 'Content-Type': 'application/json' })
    Readable.from(Array.from({ length: 512 }, () => chunk)).pipe(res)
    const repeated = await ended(post(url, CALL, keyed()))
    expect(repeated.text).toBe(chunk.repeat(512))
  })

  it('gets a JSON answer in the middle of which it has disconnected', async () => {
    const chunk = `${'x'.repeat(1023)}\n`
    const opened = gate()
    const served = await mount(async ({ res }) => {
      res.writeHead(200, { 'Content-Type': 'application/json' })
      for (let i = 0; i < 1000; i++) {
        if (!res.write(chunk)) {
          opened.open()
          await new Promise(resolve => res.once('drain', resolve))
        }
      }
      res.end()
    })
    const { url, calls } = served
    await sendAndVanish(served, 'rst', opened.opened)
    const repeated = await ended(post(url, CALL, keyed()))
    expect(repeated.text).toBe(chunk.repeat(1000))
    expect(calls.length).toBe(1)
  })

  it('has its call carried out by an endpoint that reads the body late', async () => {
    const opened = gate()
    const seen = gate()
    const guard: RequestHandler = (_req, _res, next) => {
      seen.open()
      void opened.opened.then(() => next())
    }
    const endpoint = rawEndpoint(call => json(call, call.message))
    const app = express().use(guard).use(express.json()).use(endpoint)
    const served = await serve(app)
    const { url } = served
    await sendAndVanish(served, 'rst', seen.opened)
    opened.open()
    const repeated = await ended(post(url, CALL, keyed()))
    expect([repeated.status, repeated.text]).toEqual([200, JSON.stringify(CALL)])
    expect(endpoint.calls.length).toBe(1)
  })

  it('and does not come back lets the endpoint see the close after `resumeInterval.max`', async () => {
    stopTheClock()
    const served = await mount(() => undefined, {
      resumeInterval: { min: 0, max: 5 },
      window: 60_000,
      upgradeAfter: null
    })
    const { url, calls } = served
    await sendAndVanish(served, 'rst', calls.nth(1))
    jest.advanceTimersByTime(4900)
    expect(calls[0]!.isClosed).toBe(false)
    jest.advanceTimersByTime(1000)
    await calls[0]!.closed
    const late = await ended(post(url, CALL, keyed()))
    expect([late.status, JSON.parse(late.text).error.data.reason]).toEqual([409, 'answer-lost'])
    expect(calls.length).toBe(1)
  })

  it('and comes back and leaves again has the whole `resumeInterval.max` once more', async () => {
    stopTheClock()
    const served = await mount(() => undefined, {
      resumeInterval: { min: 0, max: 5 },
      upgradeAfter: null
    })
    const { server, calls } = served
    await sendAndVanish(served, 'rst', calls.nth(1))
    jest.advanceTimersByTime(4000)
    const waits = arrival(server).then(() => jest.advanceTimersByTime(6000))
    await sendAndVanish(served, 'rst', waits)
    jest.advanceTimersByTime(4000)
    expect(calls[0]!.isClosed).toBe(false)
    jest.advanceTimersByTime(1000)
    await calls[0]!.closed
    expect(calls.length).toBe(1)
  })

  it('is not waited for by close()', async () => {
    const served = await mount(() => undefined)
    const { calls, streams } = served
    await sendAndVanish(served, 'rst', calls.nth(1))
    await streams.close()
    await calls[0]!.closed
  })
})

describe('an Idempotency-Key', () => {
  /** Whether two POSTs reach the endpoint once or twice. */
  async function reached(
    first: Record<string, string>,
    second: Record<string, string>,
    options?: McpStreamsOptions
  ) {
    const { url, calls } = await mount(call => json(call, calls.length), options)
    await ended(post(url, CALL, first))
    const answer = await ended(post(url, CALL, second))
    return { calls: calls.length, status: answer.status, text: answer.text }
  }

  it('is refused with another body', async () => {
    const { url, calls } = await mount(call => json(call, {}))
    await ended(post(url, CALL, keyed()))
    for (const body of [callTool(2, 'any'), callTool(1, 'other'), [CALL], NOTE]) {
      const answer = await ended(post(url, body, keyed()))
      expect(answer.status).toBe(409)
      expect(JSON.parse(answer.text)).toMatchObject({
        id: null,
        error: { code: -31000, data: { reason: 'key-reused' } }
      })
    }
    expect(calls.length).toBe(1)
  })

  it('is accepted with the same JSON written in another way', async () => {
    const { url, calls } = await mount(call => json(call, {}))
    await ended(post(url, CALL, keyed()))
    const answer = await post(url, JSON.stringify(CALL, undefined, 2), keyed())
    expect(answer.status).toBe(200)
    expect(calls.length).toBe(1)
  })

  it.each([1, 15, 257])('of %d characters is none', async length => {
    const short = keyed({ 'idempotency-key': 'x'.repeat(length) })
    expect(await reached(short, short)).toMatchObject({ calls: 2 })
  })

  it.each([16, 256])('of %d characters is one', async length => {
    const long = keyed({ 'idempotency-key': 'x'.repeat(length) })
    expect(await reached(long, long)).toMatchObject({ calls: 1 })
  })

  it.each<[string, Record<string, string>, Record<string, string>]>([
    ['another owner', { authorization: 'Bearer A' }, { authorization: 'Bearer B' }],
    ['an owner, where nobody was', {}, { authorization: 'Bearer B' }],
    ['nobody, where an owner was', { authorization: 'Bearer A' }, {}],
    ['another session', { 'mcp-session-id': 'A' }, { 'mcp-session-id': 'B' }],
    ['no session, where one was', { 'mcp-session-id': 'A' }, {}]
  ])('of one client means nothing for %s', async (_name, first, second) => {
    expect(await reached(keyed(first), keyed(second))).toMatchObject({ calls: 2, text: '2' })
  })

  it('of one owner is known with another access token', async () => {
    const options = { owner: () => Promise.resolve('the same') }
    const headers = [
      keyed({ authorization: 'Bearer A' }),
      keyed({ authorization: 'Bearer B' })
    ] as const
    expect(await reached(...headers, options)).toMatchObject({ calls: 1 })
  })

  it('is ignored at 2026-07-28 without `Prefer: rel=stream`', async () => {
    const { url, calls } = await mount(call => json(call, {}))
    const headers = { ...headersFor({ version: '2026-07-28' }), 'idempotency-key': KEY }
    for (let i = 0; i < 2; i++)
      expect((await post(url, withEnvelope(CALL), headers)).status).toBe(200)
    expect(calls.length).toBe(2)
  })

  it.each(['{"half', ''])('alone names a request whose body says nothing (%j)', async body => {
    const { url, calls } = await mount(call => json(call, {}, 400))
    for (let i = 0; i < 2; i++) expect((await post(url, body, keyed())).status).toBe(400)
    expect(calls.length).toBe(1)
  })

  it('is ignored where the body is no JSON-RPC message', async () => {
    const { url, calls } = await mount(call => json(call, {}, 400))
    for (let i = 0; i < 2; i++) expect((await post(url, '1', keyed())).status).toBe(400)
    expect(calls.length).toBe(2)
  })

  it('is not recorded any more after close(), and still finds what has run before', async () => {
    const { url, calls, streams } = await mount(call => json(call, calls.length))
    await ended(post(url, CALL, keyed()))
    await streams.close({ drain: 0 })
    const other = keyed({ 'idempotency-key': `${KEY}2` })
    const answers = []
    for (const headers of [keyed(), other, other]) {
      const answer = await ended(post(url, CALL, headers))
      answers.push(answer.text)
    }
    expect(answers).toEqual(['1', '2', '3'])
  })
})

describe('a call that has run under a key', () => {
  it.each([429, 503])('not, as %d says, may run again', async status => {
    const { url, calls } = await mount(call =>
      calls.length === 1 ? json(call, 'busy', status) : json(call, 'done')
    )
    const first = await ended(post(url, CALL, keyed()))
    const second = await ended(post(url, CALL, keyed()))
    expect([first.status, second.text]).toEqual([status, '"done"'])
    expect(calls.length).toBe(2)
  })

  it('does not run again where its stream was evicted', async () => {
    const { url, calls } = await mount(call => call.result('x'.repeat(3000)), {
      maxBytes: 8192,
      window: 60_000
    })
    await ended(post(url, CALL, keyed()))
    for (let i = 2; i < 8; i++)
      await (
        await post(url, callTool(i, 'any'), keyed({ 'idempotency-key': `${KEY}${i}` }))
      ).ended
    const again = await ended(post(url, CALL, keyed()))
    expect(again.messages()).toMatchObject([{ id: 1, error: { code: -31000 } }])
    expect(calls.length).toBe(7)
  })

  it('does not run again where nothing at all is left of its stream', async () => {
    const { url, calls } = await mount(call => call.result('done'), { maxStreams: 2 })
    await ended(post(url, CALL, keyed()))
    for (let i = 2; i < 8; i++)
      await (
        await post(url, callTool(i, 'any'), headersFor({ version: '2025-11-25' }))
      ).ended
    const again = await ended(post(url, CALL, keyed()))
    expect([again.status, again.text]).toEqual([409, expect.stringContaining('answer-lost')])
    expect(calls.length).toBe(7)
  })

  it('does not run again where its answer was too large to keep', async () => {
    const { url, calls } = await mount(call => json(call, 'x'.repeat(2 ** 20)))
    const first = await ended(post(url, CALL, keyed()))
    expect(first.text.length).toBe(2 ** 20 + 2)
    expect((await post(url, CALL, keyed())).status).toBe(409)
    expect(calls.length).toBe(1)
  })

  it('does not run again where its answer had to make room', async () => {
    const { url, calls } = await mount(call => json(call, 'x'.repeat(3000)), {
      maxBytes: 64 * 1024
    })
    const key = (i: number): Record<string, string> => keyed({ 'idempotency-key': `${KEY}-${i}` })
    for (let i = 0; i < 5; i++) await (await post(url, CALL, key(i))).ended
    const statuses = []
    for (let i = 0; i < 5; i++) statuses.push((await post(url, CALL, key(i))).status)
    expect(statuses).toEqual([409, 409, 409, 200, 200])
    expect(calls.length).toBe(5)
  })

  it('does not run again where the endpoint broke off', async () => {
    for (const breakOff of [
      ({ res }: RawCall) => void res.destroy(),
      ({ req }: RawCall) => void req.socket.destroy()
    ]) {
      const { url, calls } = await mount(breakOff, {
        resumeInterval: { min: 0, max: 0.1 },
        window: 60_000
      })
      await expect(post(url, CALL, keyed())).rejects.toThrow()
      expect((await post(url, CALL, keyed())).status).toBe(409)
      expect(calls.length).toBe(1)
    }
  })

  it('is 409 also for a repetition that waits while the endpoint breaks off', async () => {
    const { url, server, calls } = await mount(() => undefined)
    const first = post(url, CALL, keyed())
    first.catch(() => undefined)
    await calls.nth(1)
    const arrived = arrival(server)
    const waiting = post(url, CALL, keyed())
    await arrived
    calls[0]!.res.destroy()
    await expect(first).rejects.toThrow()
    expect((await waiting).status).toBe(409)
  })
})

describe('a response under a key', () => {
  it('has back-pressure and `drain` like any other', async () => {
    const chunk = Buffer.alloc(64 * 1024, 'x')
    let drains = 0
    const { url } = await mount(async ({ res }) => {
      res.writeHead(200, { 'Content-Type': 'application/json' })
      for (let i = 0; i < 200; i++) {
        if (res.write(chunk)) continue
        await new Promise(resolve => res.once('drain', resolve))
        drains++
      }
      res.end()
    })
    const answer = await ended(post(url, CALL, keyed()))
    expect(answer.bytes.length).toBe(200 * chunk.length)
    expect(drains).toBeGreaterThan(0)
  })

  it('emits `finish` and `close` once each', async () => {
    const events: string[] = []
    const { url } = await mount(call => {
      for (const event of ['finish', 'close', 'error']) call.res.on(event, () => events.push(event))
      json(call, {})
    })
    await ended(post(url, CALL, keyed()))
    await until(() => events.includes('close'))
    await sleep(20)
    expect(events).toEqual(['finish', 'close'])
  })

  it('that is an event stream without room for it closes with its client', async () => {
    const { url, calls } = await mount(call => void call.emit(NOTE), { maxStreams: 1 })
    const holder = await post(url, callTool(9, 'any'))
    const untaken = await post(url, CALL, keyed())
    expect([untaken.headers.link, untaken.headers['preference-applied']]).toEqual([
      undefined,
      undefined
    ])
    untaken.destroy()
    await calls[1]!.closed
    expect((await post(url, CALL, keyed())).status).toBe(409)
    expect(calls.length).toBe(2)
    holder.destroy()
  })

  it('that is a stream is not recorded in addition', async () => {
    const script: RawScript = async call => {
      for (let i = 0; i < 400; i++) {
        const isFree = call.emit(
          notification('notifications/message', { level: 'info', data: 'x'.repeat(50_000) })
        )
        if (!isFree) await new Promise(resolve => call.res.once('drain', resolve))
      }
      call.result('done')
    }
    const { url, streams } = await mount(script, { maxStreamBytes: 256 * 1024 })
    const answer = await post(url, CALL, keyed())
    answer.response.resume()
    await answer.ended
    expect(answer.bytes.length).toBeGreaterThan(20_000_000)
    expect(streams.stats().bytes).toBeLessThan(1024 * 1024)
  })
})
