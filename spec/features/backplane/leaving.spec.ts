// close() of an instance whose clients are answered by others: each comes back to another one, or
// has its answer first, and none is left waiting.

import { describe, expect, it } from '@jest/globals'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import {
  callTool,
  cancelled,
  get,
  headersFor,
  initializeSession,
  post,
  result
} from '../../helpers/mcp.js'
import { anywhere, at, gist, lastId, note, VERSION } from './setup.js'

describe('a client of an instance that leaves, and is the last one', () => {
  /** A client that stays gets what comes only now; it would have been disconnected by then. */
  async function isAnsweredHere(call: RawCall, client: OpenStream): Promise<void> {
    call.emit(note('still here'))
    await client.nextMessage()
    call.result()
    expect(await client.ended).toBe('end')
    expect(gist(client).slice(-2)).toEqual(['still here', 1])
  }

  it('stays connected where there has never been another', async () => {
    const endpoint = rawEndpoint(({ open }) => open())
    const { members } = await cluster(() => endpoint, {}, {}, 1)
    const { url, streams } = members[0]!
    await until(() => streams.stats().backplane!.up === 1)
    const client = await post(url, callTool(1, 'any'), headersFor({ version: VERSION }))
    const closed = streams.close()
    await isAnsweredHere(await endpoint.calls.nth(1), client)
    await closed
  })

  it('stays connected where the others have died', async () => {
    const all = await anywhere()
    await until(() => all.members.every(({ streams }) => streams.stats().backplane!.up === 1))
    const { first, call } = await all.call()
    for (const { backplane } of all.members.slice(1)) backplane.isUp = false
    const closed = all.members[0]!.streams.close()
    // As long as others may take to say that they live.
    await new Promise(resolve => setTimeout(resolve, 500))
    await isAnsweredHere(call, first)
    await closed
  })

  it('stays connected where all leave, also one that has come from another', async () => {
    const all = await anywhere({ retry: 10 })
    await until(() => all.members.every(({ streams }) => streams.stats().backplane!.up === 1))
    const { first, call, link } = await all.call({ Prefer: 'rel=stream' })
    const own = post(all.urls[2]!, callTool(1, 'any'), headersFor({ version: VERSION }))
    const running = await all.endpoints[2]!.calls.nth(1)
    running.open()
    const last = await own
    const closed = [all.members[0]!.streams.close()]
    await first.ended
    const moved = await get(at(link, all, 2), headersFor({ lastEventId: lastId(first) }))
    closed.push(all.members[1]!.streams.close(), all.members[2]!.streams.close())
    await new Promise(resolve => setTimeout(resolve, 500))
    await isAnsweredHere(call, moved)
    await isAnsweredHere(running, last)
    await Promise.all(closed)
  })
})

describe('a client of an instance that leaves, whose stream another one has', () => {
  it('is disconnected at once, and goes on at another instance', async () => {
    const all = await anywhere()
    const { first, call, link } = await all.call()
    first.destroy()
    const second = await get(at(link, all, 1))
    call.emit(note('one'))
    await second.nextMessage()
    const closed = all.members[1]!.streams.close()
    expect(await second.ended).toBe('end')
    await closed
    const third = await get(at(link, all, 2), headersFor({ lastEventId: lastId(second) }))
    call.emit(note('two'))
    call.result()
    await third.ended
    expect(gist(third)).toEqual(['two', 1])
  })

  it('is given what there is, where it comes back to the one that leaves', async () => {
    const all = await anywhere()
    const { first, call, link } = await all.call()
    first.destroy()
    call.emit(note('one'))
    const { streams } = all.members[1]!
    const waiting = await get(at(link, all, 1))
    await waiting.nextMessage()
    // What runs there keeps it from having left.
    const own = post(all.urls[1]!, callTool(5, 'any'), headersFor({ version: VERSION }))
    const running = await all.endpoints[1]!.calls.nth(1)
    running.open()
    const held = await own
    const closed = streams.close()
    await waiting.ended
    const late = await get(at(link, all, 1))
    expect(await late.ended).toBe('end')
    expect(gist(late)).toEqual(['one'])
    running.result()
    await held.ended
    await closed
  })

  async function sessions(answered: (call: RawCall) => void) {
    const endpoints = [0, 1].map(i =>
      rawEndpoint(answered, { session: `s${i}`, initializeAs: 'json' })
    )
    const { members } = await cluster(i => endpoints[i] as RawEndpoint, {}, {}, 2)
    return { members, endpoints }
  }

  it('is refused where the way to that one is found once this one has left', async () => {
    const { members } = await sessions(({ open }) => open())
    const [home, away] = members
    const { headers } = await initializeSession(home!.url, VERSION)
    const asked = gate()
    const found = gate()
    const { backplane, streams } = away!
    const { command } = backplane
    backplane.command = async of => {
      const place = await command.call(backplane, of)
      if (of[0] !== 'GET' || !of[1].startsWith('s:')) return place
      asked.open()
      await found.opened
      return place
    }
    const listening = get(away!.url, headers)
    await asked.opened
    await streams.close()
    found.open()
    expect((await listening).status).toBe(503)
  })

  async function relayedCall(answered: (call: RawCall) => void) {
    const { members, endpoints } = await sessions(answered)
    const [home, away] = members
    const { headers } = await initializeSession(home!.url, VERSION)
    const calling = post(away!.url, callTool(1, 'any'), headers)
    return { calling, call: await endpoints[0]!.calls.nth(1), streams: away!.streams }
  }

  it('is told at once that its session ends, and gets the answers to its running calls', async () => {
    const { members, endpoints } = await sessions(({ open }) => open())
    const [home, away] = members
    const { headers } = await initializeSession(home!.url, VERSION)
    const running = await post(away!.url, callTool(1, 'any'), headers)
    const call = await endpoints[0]!.calls.nth(1)
    const closed = home!.streams.close()
    for (const { url } of [home!, away!]) {
      const refused = await post(url, callTool(2, 'any'), headers)
      expect(refused.status).toBe(404)
      expect(await refused.json()).toMatchObject({ error: { data: { reason: 'session-ended' } } })
      expect((await get(url, headers)).status).toBe(404)
      // What is said of running calls is still heard.
      expect((await post(url, cancelled(7), headers)).status).toBe(202)
    }
    call.result()
    await running.ended
    expect(gist(running)).toEqual([1])
    await closed
    expect(endpoints[0]!.calls).toHaveLength(1)
  })

  it('gets the answer to its call first', async () => {
    const { calling, call, streams } = await relayedCall(({ open }) => open())
    const opened = await calling
    const closed = streams.close()
    call.emit(note('one'))
    call.result()
    await opened.ended
    expect(gist(opened)).toEqual(['one', 1])
    await closed
  })

  it('is disconnected where that takes too long: it may come back', async () => {
    const { calling, streams } = await relayedCall(({ open }) => open())
    const opened = await calling
    await opened.next()
    await streams.close({ drain: 0 })
    expect(await opened.ended).toBe('end')
    expect(opened.messages()).toEqual([])
  })

  it('gets an error status where that takes too long and no head was sent', async () => {
    const { calling, call, streams } = await relayedCall(() => undefined)
    const closed = streams.close({ drain: 50 })
    const refused = await calling
    expect(refused.status).toBe(503)
    expect(await refused.json()).toMatchObject({ error: { data: { reason: 'closing' } } })
    await closed
    call.res.end(JSON.stringify(result(1, {})))
  })
})
