// Sessions that move while calls still run where they were: each request, answer and listen channel
// finds the instance that it is for, at whichever moment it comes.

import { describe, expect, it } from '@jest/globals'
import { sessions } from '../../../lib/features/sessions/index.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, ended, get, initializeSession, post, request } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'

const options = { sessions: sessions({ secret: 'a secret of this spec' }), retry: 100 }
const VERSION = '2025-11-25'
/** Longer than a spec: nothing here ends because the time for closing is up. */
const drain = 600_000

/** Each endpoint knows the session that it has begun; calls and channels are for the spec. */
async function begun(size = 3) {
  const endpoints = Array.from({ length: size }, (_, i) => {
    const session = `session-${i}`
    return rawEndpoint(
      ({ req, res, message, result }) => {
        if (req.headers['mcp-session-id'] !== session) res.writeHead(404).end()
        else if (message?.method === 'ping') result()
      },
      { session }
    )
  })
  const { members } = await cluster(i => endpoints[i]!, options, {}, size)
  const urls = members.map(({ url }) => url)
  const { headers } = await initializeSession(urls[0]!, VERSION)
  // An instance that has had no request begins nothing for others.
  for (const url of urls.slice(1)) await initializeSession(url, VERSION)
  const inSession = (i: number) => endpoints[i]!.calls.filter(isIn(`session-${i}`))
  return {
    members,
    urls,
    headers,
    /** The nth call in the session at an endpoint, from 1. */
    async nth(i: number, n: number): Promise<RawCall> {
      const calls = () => inSession(i).filter(({ message }) => message?.method === 'tools/call')
      await until(() => calls().length >= n)
      return calls()[n - 1]!
    },
    async listening(i: number): Promise<RawCall> {
      const channel = () => inSession(i).find(({ req }) => req.method === 'GET')
      await until(() => channel() !== undefined)
      return channel()!
    },
    close: (i: number) => members[i]!.streams.close({ drain }),
    call: (i: number, id: number, more = {}) =>
      post(urls[i]!, callTool(id, 'any'), { ...headers, ...more }),
    answer: (i: number, id: unknown) =>
      ended(post(urls[i]!, { jsonrpc: '2.0', id, result: {} }, headers)),
    /** The ids of the requests to which an endpoint has got answers. */
    answers: (i: number): unknown[] =>
      endpoints[i]!.requests.flatMap(({ message }) =>
        message?.method === undefined && message?.result !== undefined ? [message.id] : []
      )
  }
}

const isIn =
  (session: string) =>
  ({ req }: RawCall): boolean =>
    req.headers['mcp-session-id'] === session

const ask = ({ emit }: RawCall, id = 0): unknown => emit(request(id, 'elicitation/create', {}))

const askedIn = async (stream: OpenStream): Promise<unknown> => {
  const { data } = await stream.next(block => block.data?.includes('elicitation') === true)
  return JSON.parse(data!).id
}

/** Opens a call at the first instance, which asks. */
async function asking(all: Awaited<ReturnType<typeof begun>>) {
  const opened = all.call(0, 1)
  const call = await all.nth(0, 1)
  ask(call)
  const stream = await opened
  return { call, stream, id: await askedIn(stream) }
}

/** A request that goes through an instance, and runs where the session is now. */
async function served(all: Awaited<ReturnType<typeof begun>>, at: number, by: number, id: number) {
  const opened = all.call(at, id)
  const call = await all.nth(by, 1)
  call.result()
  expect((await ended(opened)).messages()).toMatchObject([{ id }])
}

describe('an answer in a session that has moved', () => {
  it('finds the call that has asked, also where the session has moved twice', async () => {
    const all = await begun(4)
    const { call, stream, id } = await asking(all)
    const closed = all.close(0)
    await served(all, 1, 1, 2)
    // Nothing runs there, so that it is gone before the first one.
    await all.close(1)
    await served(all, 2, 2, 3)
    expect((await all.answer(3, id)).status).toBe(202)
    expect((await all.answer(2, id)).status).toBe(202)
    expect([2, 3].map(i => all.answers(i))).toEqual([[], []])
    expect(all.answers(0)).toEqual([0, 0])
    call.result()
    await ended(stream)
    await closed
    // Those that have left are not asked any more.
    const next = all.call(3, 4)
    const later = await all.nth(2, 2)
    ask(later)
    expect((await all.answer(3, await askedIn(await next))).status).toBe(202)
    expect(all.answers(2)).toEqual([0])
    later.result()
  })

  it('finds a call of the second of three instances by way of a fourth', async () => {
    const all = await begun(4)
    const { call, stream } = await asking(all)
    const closed = [all.close(0)]
    // As its session has moved there, its id says who has asked.
    const opened = all.call(1, 2)
    const later = await all.nth(1, 1)
    ask(later)
    const second = await opened
    const id = await askedIn(second)
    closed.push(all.close(1))
    await served(all, 2, 2, 3)
    expect((await all.answer(3, id)).status).toBe(202)
    expect([0, 1, 2].map(all.answers)).toEqual([[], [0], []])
    for (const one of [call, later]) one.result()
    for (const one of [stream, second]) await ended(one)
    await Promise.all(closed)
  })

  it('finds it where others knew of the move before the instance that has the session', async () => {
    const all = await begun()
    const { call, id } = await asking(all)
    const closed = all.close(0)
    // The second one has claimed the session, and does not know it yet.
    const { backplane } = all.members[1]!
    const known = gate()
    const isClaimed = gate()
    const { command } = backplane
    backplane.command = async one => {
      const said = await command.call(backplane, one)
      if (!(one as readonly unknown[]).includes('NX')) return said
      isClaimed.open()
      await known.opened
      return said
    }
    const first = all.call(1, 2)
    await isClaimed.opened
    const second = all.call(2, 3)
    // It has come there, and waits.
    await until(() => all.members[1]!.streams.stats().backplane!['accepted']! > 0)
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
    known.open()
    const calls = [await all.nth(1, 1), await all.nth(1, 2)]
    for (const one of calls) ask(one)
    const ids = [await askedIn(await first), await askedIn(await second)]
    expect(ids.every(one => one !== id)).toBe(true)
    expect((await all.answer(2, id)).status).toBe(202)
    expect(all.answers(0)).toEqual([0])
    expect(all.answers(1)).toEqual([])
    for (const one of [call, ...calls]) one.result()
    await closed
  })

  it('finds a call that came before its instance left, and is begun by its endpoint after', async () => {
    const all = await begun()
    const opened = all.call(0, 1)
    const call = await all.nth(0, 1)
    const closed = all.close(0)
    await served(all, 1, 1, 2)
    ask(call)
    const stream = await opened
    expect(stream.headers.link).toContain('rel="stream"')
    expect((await all.answer(1, await askedIn(stream))).status).toBe(202)
    expect(all.answers(0)).toEqual([0])
    call.result()
    expect((await ended(stream)).messages().at(-1)).toMatchObject({ id: 1 })
    await closed
  })
})

describe('a call that is sent again under its key', () => {
  it('is found where it runs, by way of any instance, after its session has moved', async () => {
    const all = await begun()
    const key = { 'idempotency-key': 'a-key-that-nobody-guesses' }
    const opened = all.call(0, 1, key)
    const call = await all.nth(0, 1)
    call.open()
    const first = await opened
    const closed = all.close(0)
    await served(all, 1, 1, 2)
    // It takes the place of the first connection, which it may have lost.
    const again = await all.call(2, 1, key)
    await first.ended
    call.result()
    expect((await ended(again)).messages().at(-1)).toMatchObject({ id: 1, result: {} })
    await closed
  })
})

describe('a listen channel of an instance that leaves', () => {
  const listen = async (all: Awaited<ReturnType<typeof begun>>, i: number) => {
    const opened = get(all.urls[i]!, all.headers)
    ;(await all.listening(0)).open()
    return opened
  }

  it('goes on where the session is now, by way of any instance', async () => {
    const all = await begun()
    const channel = await listen(all, 0)
    const opened = all.call(0, 1)
    const call = await all.nth(0, 1)
    call.open()
    const closed = all.close(0)
    expect(await channel.ended).toBe('end')
    await served(all, 1, 1, 2)
    // It is asked for where it was, handed back, and asked for again where the session is.
    const lastEventId = channel.blocks.findLast(({ id }) => id !== undefined)!.id!
    const again = get(all.urls[2]!, { ...all.headers, 'last-event-id': lastEventId })
    const next = await all.listening(1)
    next.emit(request(5, 'ping'))
    await (await again).next(block => block.data?.includes('ping') === true)
    call.result()
    await ended(opened)
    await closed
  })

  it('is over at its stream URL, too, for a client that has all of it', async () => {
    const all = await begun()
    const channel = await listen(all, 0)
    const opened = all.call(0, 1)
    const call = await all.nth(0, 1)
    call.open()
    const closed = all.close(0)
    await channel.ended
    expect((await ended(get(streamUrl(channel, all.urls[1]!)))).status).toBe(204)
    call.result()
    await ended(opened)
    await closed
  })

  it('ends where its client is connected, also if the other instance says nothing', async () => {
    const all = await begun()
    // Its endpoint gives no head.
    const silent = get(all.urls[1]!, all.headers)
    await all.listening(0)
    await all.close(1)
    expect(await (await silent).ended).toBe('end')
  })
})
