// An endpoint that closes its event stream before the response (SEP-1699): it expects its client
// again, and the middleware comes in its place.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { once } from 'node:events'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { isMessage } from '../../helpers/blocks.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { gate } from '../../helpers/gate.js'
import { closeAll, type Handler } from '../../helpers/listen.js'
import {
  callTool,
  cancelled,
  eventId,
  get,
  headersFor,
  initializeSession,
  post
} from '../../helpers/mcp.js'
import { serve, streamId } from '../../helpers/serve.js'
import { leave, stopTheClock, turn } from '../limits/setup.js'
import { answer, event, MODERN, note, OrderedStore } from './setup.js'

afterEach(async () => {
  jest.useRealTimers()
  await closeAll()
})

/** A client that would not come back by itself. */
const STAYS = headersFor({ version: '2025-06-18', session: 'a session', auth: 'secret' })

type Answer = (call: RawCall, n: number) => unknown

/**
 * A call to an endpoint that has sent a note with the id `b` and then closes its stream; `answer`
 * says what it has for each client that comes back. Time stands still.
 */
async function closed(
  answer: Answer,
  { begin = `id: a\nretry: 5000\ndata: \n\n${event('b', note(1))}`, ...options }: Options = {},
  headers = STAYS
) {
  stopTheClock()
  const gets: RawCall[] = []
  const over = gate()
  const endpoint = rawEndpoint(async call => {
    const { req, res, write, message } = call
    if (req.method === 'GET') return answer(call, gets.push(call))
    if (message?.id === undefined) return res.writeHead(202).end()
    write(begin)
    await turn()
    res.end()
    return over.open()
  })
  const served = await serve(endpoint, options)
  const response = await post(served.url, callTool(1, 'any'), headers)
  await over.opened
  return { ...served, endpoint, gets, response }
}

interface Options extends McpStreamsOptions {
  begin?: string
}

/** Lets so much time pass, and everything happen that is due meanwhile. */
async function pass(ms: number): Promise<void> {
  for (let n = 0; n < 10; n++) await turn()
  await jest.advanceTimersByTimeAsync(ms)
  for (let n = 0; n < 50; n++) await turn()
}

const NO_RESPONSE = { id: 1, error: { code: -31000, data: { reason: 'no-response' } } }

const SDKS = {
  'SDK v1': (eventStore: OrderedStore, onContext: OnContext) =>
    sdkV1Stateful({ eventStore, onContext, transport: { retryInterval: 50 } }),
  'SDK v2': (eventStore: OrderedStore, onContext: OnContext) =>
    sdkV2Stateful({ eventStore, onContext, transport: { retryInterval: 50 } })
}
type OnContext = (args: Record<string, unknown>, context: unknown) => Promise<unknown>

interface Sdk {
  closeSSEStream?(): void
  sendNotification?(message: unknown): Promise<void>
  http?: { closeSSE(): void }
  mcpReq?: { notify(message: unknown): Promise<void> }
}

describe.each(Object.entries(SDKS))('a tool of %s that closes its stream', (_name, create) => {
  it('twice: its client notices nothing, and has each message once', async () => {
    const store = new OrderedStore()
    const steps = [gate(), gate()]
    const endpoint = create(store, async (_args, context) => {
      const sdk = context as Sdk
      const say = (n: number) => sdk.sendNotification?.(note(n)) ?? sdk.mcpReq?.notify(note(n))
      const close = () => (sdk.closeSSEStream ?? sdk.http?.closeSSE)?.()
      await say(1)
      for (const [i, step] of steps.entries()) {
        close()
        await step.opened
        await say(i + 2)
      }
      return 'done'
    })
    const { url, streams } = await serve(endpoint as Handler)
    const { headers } = await initializeSession(url, '2025-11-25')
    const response = await post(url, callTool(1, 'context', { key: 'k' }), headers)
    for (const [i, step] of steps.entries()) {
      await store.replays.nth(i + 1)
      step.open()
    }
    expect(await response.ended).toBe('end')
    expect(response.messages()).toMatchObject([
      note(1),
      note(2),
      note(3),
      { id: 1, result: { content: [{ text: '"done"' }] } }
    ])
    expect(endpoint.log.executions('k')).toBe(1)
    expect(streams.stats()).toMatchObject({ live: 0 })
  })
})

describe('an endpoint that closes its stream before the response', () => {
  it('is asked to go on, after its own time, as its client would ask', async () => {
    const { response, gets } = await closed(({ req, write, res }) => {
      expect(req.headers).toMatchObject({
        accept: 'text/event-stream',
        'last-event-id': 'b',
        'mcp-session-id': 'a session',
        'mcp-protocol-version': '2025-06-18',
        authorization: 'Bearer secret'
      })
      write(event('c', note(2)))
      res.end(event('d', answer))
    })
    await pass(4999)
    expect(gets).toHaveLength(0)
    await pass(1)
    expect(await response.ended).toBe('end')
    expect(gets).toHaveLength(1)
    expect(response.messages()).toEqual([note(1), note(2), answer])
    expect(response.blocks.filter(isMessage).map(({ id }) => id)).toEqual(
      [1, 2, 3].map(n => eventId(streamId(response), n))
    )
  })

  it('breaks off within an event: that comes again, and what came before is dropped', async () => {
    stopTheClock()
    const endpoint = rawEndpoint(async ({ req, res, write }) => {
      const events = [1, 2, 3].map(n => event(`e${n}`, note(n))).join('')
      if (req.method === 'GET') {
        write(events)
        return res.end(event('e4', answer))
      }
      write(events.slice(0, -30))
      await turn()
      return res.destroy()
    })
    const { url } = await serve(endpoint)
    const response = await post(url, callTool(1, 'any'), STAYS)
    await pass(1000)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([note(1), note(2), note(3), answer])
  })

  it.each([
    ['2,000 short ids', 2000, ''],
    ['more than 1 MiB of ids', 1500, 'x'.repeat(1000)]
  ])(
    'ignores from where it is asked to go on, after %s: each message comes once',
    async (_name, count, rest) => {
      const from = (first: number, last: number) =>
        Array.from({ length: last - first + 1 }, (_, i) => first + i)
      const text = (numbers: number[]) => numbers.map(n => event(`${n}${rest}`, note(n))).join('')
      const { response, gets } = await closed(
        ({ write, res }, n) => {
          // It replays all, and so it does again; the first time that breaks off.
          if (n === 1) return (write(text(from(1, count - 5))), setImmediate(() => res.destroy()))
          if (n === 2) return (write(text(from(1, count + 1))), res.end())
          write(text([count + 2]))
          return res.end(event('last', answer))
        },
        { begin: text(from(1, count)) }
      )
      for (let n = 0; n < 3; n++) await pass(1000)
      expect(await response.ended).toBe('end')
      expect(response.messages()).toEqual([...from(1, count + 2).map(note), answer])
      expect(gets.map(({ req }) => req.headers['last-event-id'])).toEqual(
        [count, count, count + 1].map(n => `${n}${rest}`)
      )
    }
  )

  it.each([
    ['behind its data', -'id: c2\n\n'.length],
    ['within its id', -'2\n\n'.length]
  ])('ends a stream in order within an event, %s: that comes again', async (_where, end) => {
    const whole = `data: ${JSON.stringify(note(2))}\nid: c2\n\n`
    const { response, gets } = await closed(({ write, res }, n) => {
      write(n === 1 ? whole.slice(0, end) : whole + event('d', answer))
      res.end()
    })
    await pass(5000)
    await pass(5000)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([note(1), note(2), answer])
    expect(gets.map(({ req }) => req.headers['last-event-id'])).toEqual(['b', 'b'])
  })

  it('ends a stream in order within its response, which is whole: nothing is asked again', async () => {
    const { response, gets } = await closed(({ write, res }) => {
      write(event('c', answer).trimEnd())
      res.end()
    })
    await pass(5000)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([note(1), answer])
    expect(gets).toHaveLength(1)
  })

  it('leaves its stream open behind a response that it replays: the call ends all the same', async () => {
    const w = await closed(({ write }) => void write(event('c', note(2)) + event('d', answer)))
    await pass(5000)
    expect(await w.response.ended).toBe('end')
    expect(w.response.messages()).toEqual([note(1), note(2), answer])
    await w.gets[0]!.closed
    expect(w.streams.stats()).toMatchObject({ live: 0 })
  })

  it('goes on twice in a row, never sooner than after a second', async () => {
    const { response, gets } = await closed(
      ({ write, res }, n) => {
        write(event(`c${n}`, note(n + 1)))
        res.end(n === 3 ? event('last', answer) : '')
      },
      { begin: `id: a\nretry: 10\ndata: \n\n${event('b', note(1))}` }
    )
    for (const [ms, count] of [
      [10, 1],
      [989, 1],
      [11, 2],
      [900, 2],
      [100, 3]
    ] as const) {
      await pass(ms)
      expect(gets).toHaveLength(count)
    }
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([note(1), note(2), note(3), note(4), answer])
    expect(gets.map(({ req }) => req.headers['last-event-id'])).toEqual(['b', 'c1', 'c2'])
  })

  it.each([400, 404, 405, 403, 204])(
    'refuses to go on, with %d: the call ends with an error',
    async status => {
      const { response, gets, streams } = await closed(({ res }) => res.writeHead(status).end())
      await pass(5000)
      expect(await response.ended).toBe('end')
      expect(response.messages()).toMatchObject([note(1), NO_RESPONSE])
      await pass(600_000)
      expect(gets).toHaveLength(1)
      expect(streams.stats()).toMatchObject({ live: 0 })
    }
  )

  it('has JSON instead: the call ends with an error', async () => {
    const { response } = await closed(({ res }) =>
      res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
    )
    await pass(5000)
    await response.ended
    expect(response.messages()).toMatchObject([note(1), NO_RESPONSE])
  })

  it.each([409, 429, 503, 'broken off'])(
    'cannot go on at the moment (%s): it is asked again, for a while',
    async how => {
      const fail: Answer = ({ res }) =>
        how === 'broken off' ? res.destroy() : res.writeHead(how as number).end()
      const { response, gets } = await closed((call, n) => {
        if (n < 3) return fail(call, n)
        call.write(event('c', note(2)))
        return call.res.end(event('d', answer))
      })
      for (let n = 0; n < 3; n++) await pass(5000)
      expect(await response.ended).toBe('end')
      expect(response.messages()).toEqual([note(1), note(2), answer])
      expect(gets).toHaveLength(3)

      jest.useRealTimers()
      const other = await closed(fail)
      for (let n = 0; n < 12; n++) await pass(20_000)
      expect(await other.response.ended).toBe('end')
      expect(other.response.messages()).toMatchObject([note(1), NO_RESPONSE])
      expect(other.gets).toHaveLength(6)
    }
  )

  it('closes for ever: one request at a time, one a second, until `resumeInterval.max`', async () => {
    let open = 0
    const { response, gets, streams } = await closed(
      async ({ write, res }, n) => {
        expect(++open).toBe(1)
        write(n % 2 === 0 ? ': nothing yet\n\n' : `id: b${n}\ndata: \n\n`)
        await turn()
        open--
        res.end()
      },
      { begin: event('b', note(1)), resumeInterval: { max: 30 } }
    )
    for (let n = 0; n < 40; n++) await pass(1000)
    expect(await response.ended).toBe('end')
    expect(response.messages()).toMatchObject([note(1), NO_RESPONSE])
    expect(gets.length).toBeGreaterThan(25)
    expect(gets.length).toBeLessThanOrEqual(31)
    await pass(60_000)
    expect(gets.length).toBeLessThanOrEqual(31)
    expect(streams.stats()).toMatchObject({ live: 0 })
  })

  it('asks for a reconnection time beyond all measure: as long as `resumeInterval.max`', async () => {
    const { response, gets } = await closed(({ res }) => res.writeHead(404).end(), {
      begin: `id: a\nretry: 99999999999999\ndata: \n\n`,
      resumeInterval: { max: 20 }
    })
    await pass(19_999)
    expect(gets).toHaveLength(0)
    await pass(1)
    await response.ended
    expect(response.messages()).toMatchObject([NO_RESPONSE])
  })

  it.each(['cancelled', 'abandoned'])('is not asked any more once the call is %s', async how => {
    const ended = gate()
    const w = await closed(call => {
      call.write(event('c', note(2)))
      void call.closed.then(() => ended.open())
    })
    await pass(5000)
    await w.response.take(2, isMessage)
    if (how === 'cancelled') await post(w.url, cancelled(1), STAYS)
    else {
      await leave(w.response, w)
      await pass(600_000)
    }
    await ended.opened
    expect(w.streams.stats()).toMatchObject({ live: 0, bytes: 0 })
    await pass(600_000)
    expect(w.gets).toHaveLength(1)
  })

  it('disconnects at will a client that announces itself', async () => {
    const headers = { ...MODERN, ...headersFor({ prefer: 'rel=stream' }) }
    const w = await closed(({ res }) => res.writeHead(404).end(), {}, headers)
    expect(await w.response.ended).toBe('end')
    expect(w.response.blocks.at(-1)).toMatchObject({
      id: eventId(streamId(w.response), '1.2'),
      retry: 5000
    })
    const lastEventId = w.response.blocks.at(-1)!.id!
    await pass(5000)
    expect(w.gets).toHaveLength(1)
    const again = await get(w.url, { ...headers, 'last-event-id': lastEventId })
    await again.ended
    expect(again.messages()).toMatchObject([NO_RESPONSE])
  })

  it('waits while its client takes nothing', async () => {
    const ALL = 300
    let written = 1
    const w = await closed(
      async ({ write, res, closed: gone }) => {
        const filler = 'x'.repeat(100_000)
        while (written < ALL) {
          const hasRoom = write(event(`c${++written}`, { ...note(written), filler }))
          if (!hasRoom) await Promise.race([once(res, 'drain'), gone])
        }
        res.end(event('d', answer))
      },
      { maxStreamBytes: 1_000_000 }
    )
    w.response.pause()
    await pass(5000)
    for (let before = 0; before < written; await pass(0)) before = written
    expect(written).toBeLessThan(ALL)
    expect(w.streams.stats()).toMatchObject({ live: 1, connections: 1 })
    w.response.resume()
    expect(await w.response.ended).toBe('end')
    expect(w.response.messages().map(({ params }) => params?.data)).toEqual([
      ...Array.from({ length: ALL }, (_, i) => i + 1),
      undefined
    ])
  })
})

describe('ids that tell nothing', () => {
  const USELESS: Record<string, (n: number) => string> = {
    repeat: () => 'x',
    'repeat in turn': n => `x${n % 2}`,
    'contain NUL': n => `x\0${n}`,
    'are 1 MB long': n => `${n}`.padEnd(1024 * 1024, 'x'),
    'cannot stand in a header': n => `№ ${n}`,
    'are empty': () => ''
  }

  it.each(Object.entries(USELESS))('which %s: as if there were none', async (_name, id) => {
    const events = [1, 2, 3].map(n => event(id(n), note(n))).join('')
    const cut = await closed(() => undefined, { begin: events })
    expect(await cut.response.ended).toBe('end')
    expect(cut.response.messages()).toMatchObject([note(1), note(2), note(3), NO_RESPONSE])
    const whole = await post(
      (await serve(rawEndpoint(({ write, res }) => (write(events), res.end(event(id(4), answer))))))
        .url,
      callTool(1, 'any'),
      MODERN
    )
    expect(await whole.ended).toBe('end')
    expect(whole.messages()).toEqual([note(1), note(2), note(3), answer])
    await pass(600_000)
    expect(cut.gets).toHaveLength(0)
  })

  it.each([
    ['shrink', ['9', '8', '7']],
    ['change their stream', ['one_1', 'two_7', 'one_2']]
  ])('but not those that %s', async (_name, ids) => {
    const { response, gets } = await closed(
      ({ write, res }) => {
        write(event(ids[2]!, note(3)))
        res.end(event('last', answer))
      },
      { begin: ids.map((id, i) => event(id, note(i + 1))).join('') }
    )
    await pass(1000)
    expect(await response.ended).toBe('end')
    expect(gets[0]!.req.headers['last-event-id']).toBe(ids[2])
    expect(response.messages()).toEqual([note(1), note(2), note(3), answer])
  })
})
