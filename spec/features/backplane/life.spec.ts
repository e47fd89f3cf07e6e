// Instances that die, or seem to: each client that waits has an answer or an error, soon, and nobody
// is taken for dead by who has lost the others himself.

import { describe, expect, it } from '@jest/globals'
import type { RawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, get, headersFor, initialize, post, result } from '../../helpers/mcp.js'
import { until } from '../../helpers/happenings.js'
import { openStream, type OpenStream } from '../../helpers/open-stream.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { serve } from '../../helpers/serve.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { anywhere, at, gist, lastId, note, VERSION, type Anywhere } from './setup.js'

// Each has instances of its own and mostly waits for a lease: so most wait at once.
const LEASE = 400
const GONE = [{ id: 1, error: { code: expect.any(Number), data: { reason: 'owner-gone' } } }]

async function ended(response: OpenStream | Promise<OpenStream>): Promise<OpenStream> {
  const answer = await response
  await answer.ended
  return answer
}

/** All members have seen their own messages for a lease, and so may judge others. */
async function settled(all: Anywhere): Promise<void> {
  await until(() => all.members.every(({ streams }) => streams.stats().backplane.up === 1))
  await new Promise(resolve => setTimeout(resolve, LEASE * 1.2))
}

/** To the others, its process has ended. */
const kill = (all: Anywhere, i: number): void => {
  all.members[i]!.backplane.isUp = false
}

describe('an instance that has died', () => {
  it.concurrent(
    'has each client that waits at another instance get an error for its call',
    async () => {
      const all = await anywhere({}, { lease: LEASE })
      const { first, call, link } = await all.call()
      call.emit(note('one'))
      await first.nextMessage()
      first.destroy()
      await settled(all)
      const waiting = await get(at(link, all, 1), headersFor({ lastEventId: lastId(first) }))
      kill(all, 0)
      await waiting.ended
      expect(waiting.messages()).toMatchObject(GONE)
      expect(waiting.ending).toBe('end')
      // Where it lives after all, it learns of that.
      expect(call.isClosed).toBe(false)
      all.members[0]!.backplane.isUp = true
      await call.closed
      expect(all.members[0]!.streams.stats().failures).toEqual({ 'owner-gone': 1 })
    }
  )

  it.concurrent('has each client that comes back later get one, and 204 after that', async () => {
    const all = await anywhere({}, { lease: LEASE })
    const { first, call } = await all.call()
    call.emit(note('one'))
    await first.nextMessage()
    first.destroy()
    await settled(all)
    kill(all, 0)
    const comeBack = (i: number, lastEventId: string) =>
      get(all.urls[i]!, headersFor({ version: VERSION, lastEventId }))
    const second = await comeBack(1, lastId(first))
    await second.ended
    expect(second.messages()).toMatchObject(GONE)
    expect((await comeBack(2, lastId(second))).status).toBe(204)
  })

  it.concurrent('has its stream URLs answer 410', async () => {
    const all = await anywhere({}, { lease: LEASE })
    const { first, link } = await all.call()
    first.destroy()
    await settled(all)
    kill(all, 0)
    // It may have been waited for at first.
    await (
      await get(at(link, all, 1))
    ).ended
    expect((await get(at(link, all, 1))).status).toBe(410)
  })

  it('is not waited for that never was, as soon as the others are known', async () => {
    // Who waited for an instance would do so for a part of a lease.
    const all = await anywhere({}, { lease: 60_000 })
    await until(() => all.members.every(({ streams }) => streams.stats().backplane.up === 1))
    const made = `${all.urls[0]}?stream=never-was-${'a'.repeat(11)}`
    for (const method of ['GET', 'POST', 'DELETE']) {
      const body = method === 'POST' ? [result(1, {})] : undefined
      const response = await openStream(made, { method, body, headers: headersFor({}) })
      expect([method, response.status]).toEqual([method, 410])
    }
  })

  it.concurrent(
    'has results that nobody had fetched given by any other instance, to their owner only',
    async () => {
      const all = await anywhere({}, { lease: LEASE })
      const { first, call, link } = await all.call({ authorization: 'Bearer one' })
      call.emit(note('one'))
      await first.nextMessage()
      first.destroy()
      await until(() => all.members[0]!.streams.stats().connections === 0)
      call.emit(note('two'))
      call.result()
      await settled(all)
      kill(all, 0)
      const resume = (i: number, auth: string, lastEventId?: string) =>
        get(at(link, all, i), headersFor({ auth, lastEventId }))
      const rest = await resume(1, 'one', lastId(first))
      await rest.ended
      expect(gist(rest)).toEqual(['two', 1])
      const whole = await resume(2, 'one')
      await whole.ended
      expect(gist(whole)).toEqual(['one', 'two', 1])
      expect((await resume(2, 'one', lastId(whole))).status).toBe(204)
      const name = new URL(link).searchParams.get('stream')!
      const unknown = link.replace(name, `${name.slice(0, 5)}aaaaaaaaaaaaaaaa`)
      const never = await get(at(unknown, all, 1), headersFor({ auth: 'two' }))
      const theirs = await resume(1, 'two')
      await Promise.all([never.ended, theirs.ended])
      expect([theirs.status, theirs.text]).toEqual([never.status, never.text])
      expect(theirs.status).toBe(410)
    }
  )

  it.concurrent('has its sessions answer 404, so that their clients start new ones', async () => {
    const endpoints = [0, 1, 2].map(i =>
      rawEndpoint(({ res }) => res.writeHead(404).end(), { session: `s${i}` })
    )
    const all = await cluster(i => endpoints[i] as RawEndpoint, {}, { lease: LEASE })
    const [first, second] = all.members
    const opened = await post(first!.url, initialize(VERSION))
    await opened.ended
    await settled(all as Anywhere)
    kill(all as Anywhere, 0)
    const call = async (): Promise<OpenStream> => {
      const headers = headersFor({ version: VERSION, session: 's0' })
      const response = await post(second!.url, callTool(1, 'any'), headers)
      await response.ended
      // On a busy machine all sleep for longer than such a lease at times, and judge nobody then.
      return response.text.includes('owner-unreachable') ? call() : response
    }
    const lost = await call()
    expect([await lost.json()]).toMatchObject(GONE)
    expect((await call()).status).toBe(404)
    expect(endpoints[1]!.calls.length).toBe(1)
  })

  it.concurrent(
    'aborts the calls that others have given up, where it was only paused',
    async () => {
      const all = await anywhere({}, { lease: LEASE })
      const { first, call } = await all.call()
      call.emit(note('one'))
      await first.nextMessage()
      first.destroy()
      await settled(all)
      kill(all, 0)
      const told = await get(
        all.urls[1]!,
        headersFor({ version: VERSION, lastEventId: lastId(first) })
      )
      await told.ended
      expect(told.messages()).toMatchObject(GONE)
      expect(call.isClosed).toBe(false)
      all.members[0]!.backplane.isUp = true
      await call.closed
      expect(all.members[0]!.streams.stats().failures).toEqual({ 'owner-gone': 1 })
    }
  )
})

describe('an instance that others cannot reach', () => {
  it.concurrent('serves its own clients as before', async () => {
    const all = await anywhere({}, { lease: LEASE })
    await settled(all)
    kill(all, 0)
    const { first, call } = await all.call()
    call.emit(note('one'))
    call.result()
    await first.ended
    expect(gist(first)).toEqual(['one', 1])
    expect(all.members[0]!.streams.stats().backplane).toMatchObject({ up: 0 })
  })

  it.concurrent(
    'takes no other instance for dead, and its clients get comments while they wait',
    async () => {
      const all = await anywhere({}, { lease: LEASE })
      const { first, call, link } = await all.call()
      first.destroy()
      await settled(all)
      kill(all, 1)
      const waiting = await get(at(link, all, 1))
      expect(waiting.status).toBe(200)
      await new Promise(resolve => setTimeout(resolve, 2 * LEASE))
      expect(waiting.messages()).toEqual([])
      expect(waiting.text).toContain(': keep-alive')
      all.members[1]!.backplane.isUp = true
      call.emit(note('one'))
      call.result()
      await waiting.ended
      expect(gist(waiting)).toEqual(['one', 1])
    }
  )

  it.concurrent(
    'repeats the event id of a client that waits, as stock clients would forget it',
    async () => {
      const all = await anywhere({}, { lease: LEASE })
      const { first, call } = await all.call()
      call.emit(note('one'))
      await first.nextMessage()
      first.destroy()
      await settled(all)
      kill(all, 1)
      const lastEventId = lastId(first)
      const waiting = await get(all.urls[1]!, headersFor({ version: VERSION, lastEventId }))
      expect((await waiting.next(({ id }) => id !== undefined)).id).toBe(lastEventId)
      all.members[1]!.backplane.isUp = true
      call.result()
      await waiting.ended
      expect(gist(waiting)).toEqual([1])
    }
  )

  it.concurrent('loses no message of a stream that is relayed meanwhile', async () => {
    const all = await anywhere({}, { lease: LEASE })
    const { first, call, link } = await all.call()
    first.destroy()
    const waiting = await get(at(link, all, 1))
    call.emit(note('one'))
    await waiting.nextMessage()
    for (const { backplane } of all.members) backplane.isUp = false
    call.emit(note('two'))
    await new Promise(resolve => setTimeout(resolve, 2 * LEASE))
    for (const { backplane } of all.members) backplane.isUp = true
    call.result()
    await waiting.ended
    expect(gist(waiting)).toEqual(['one', 'two', 1])
  })
})

describe('the shared keys of a session, a stream or an Idempotency-Key', () => {
  it.concurrent(
    'may be deleted: nobody is taken for dead, and sessions are found again',
    async () => {
      const endpoints = [0, 1].map(i => rawEndpoint(call => call.result(), { session: `s${i}` }))
      const all = await cluster(i => endpoints[i] as RawEndpoint, {}, { lease: LEASE }, 2)
      const opened = await post(all.members[0]!.url, initialize(VERSION))
      await opened.ended
      await settled(all as Anywhere)
      all.hub.flush()
      await until(() => [...all.hub.keys.keys()].some(key => key.startsWith('s:')))
      const response = await post(
        all.members[1]!.url,
        callTool(1, 'any'),
        headersFor({ version: VERSION, session: 's0' })
      )
      await response.ended
      expect(endpoints.map(({ calls }) => calls.length)).toEqual([1, 0])
    }
  )

  it('are waited for by a request in a session, until they are written again', async () => {
    const endpoints = [0, 1].map(i => rawEndpoint(call => call.result(), { session: `s${i}` }))
    const all = await cluster(i => endpoints[i] as RawEndpoint, {}, { lease: LEASE }, 2)
    const opened = await post(all.members[0]!.url, initialize(VERSION))
    await opened.ended
    await settled(all as Anywhere)
    all.hub.flush()
    const headers = headersFor({ version: VERSION, session: 's0' })
    const response = await post(all.members[1]!.url, callTool(1, 'any'), headers)
    await response.ended
    expect(endpoints.map(({ calls }) => calls.length)).toEqual([1, 0])
  })

  const keyed = {
    ...headersFor({ version: VERSION }),
    'idempotency-key': 'a-key-that-nobody-guesses'
  }

  /** A call under a key at the first member, of which the second one has heard. */
  async function running() {
    const all = await anywhere({}, { lease: LEASE })
    const kept = new Map(all.hub.keys)
    const first = post(all.urls[0]!, callTool(1, 'any'), keyed)
    const call = await all.endpoints[0]!.calls.nth(1)
    await settled(all)
    const repeat = (i: number): Promise<OpenStream> => post(all.urls[i]!, callTool(1, 'any'), keyed)
    const answers = [first, repeat(1)]
    await until(() => all.members[0]!.streams.stats().backplane.accepted === 1)
    const runs = (): number[] => all.endpoints.map(({ calls }) => calls.length)
    return { all, call, kept, repeat, answers, runs }
  }

  /** The server is another process, which some instances reach later than others. */
  function restart({ hub, members }: Anywhere, kept: Anywhere['hub']['keys']): void {
    const [owner, ...others] = members.map(({ backplane }) => backplane)
    for (const { backplane } of members) backplane.isUp = false
    hub.flush()
    hub.id++
    for (const [key, value] of kept) hub.keys.set(key, value)
    for (const other of others) other.isUp = true
    setTimeout(() => (owner!.isUp = true), LEASE / 2)
  }

  it.each<[string, (all: Anywhere, kept: Anywhere['hub']['keys']) => void]>([
    ['flushed', all => all.hub.flush()],
    ['gone with a Redis that comes back empty', all => restart(all, new Map())],
    ['gone with a Redis that comes back as it was before', restart]
  ])('do not let a call run twice, wherever it is repeated, when they were %s', async (_, lose) => {
    const { all, call, kept, repeat, answers, runs } = await running()
    lose(all, kept)
    answers.push(...[1, 2, 1, 2, 0].map(repeat))
    setTimeout(() => {
      call.open()
      call.result()
    }, LEASE * 1.5)
    const statuses: number[] = []
    for (const answer of await Promise.all(answers)) {
      await answer.ended
      statuses.push(answer.status)
    }
    expect(runs()).toEqual([1, 0, 0])
    // One that came to an instance while that seemed to have the call is to come again.
    expect(statuses.every(status => status === 200 || status === 503)).toBe(true)
    expect(gist(await repeat(2))).toEqual([1])
  })

  it('do not let a call run twice at an instance that has come only after they were flushed', async () => {
    const { all, call, repeat, runs } = await running()
    all.hub.flush()
    const endpoint = rawEndpoint(({ result: answer }) => answer())
    const { url } = await serve(endpoint, { backplane: all.hub.option() })
    const late = post(url, callTool(1, 'any'), keyed)
    setTimeout(() => {
      call.open()
      call.result()
    }, LEASE)
    expect(gist(await ended(late))).toEqual([1])
    expect([...runs(), endpoint.calls.length]).toEqual([1, 0, 0, 0])
    expect(gist(await ended(repeat(1)))).toEqual([1])
  })

  it('are waited for while an instance that lives has not written its own again, for a while', async () => {
    const { all, call, repeat, answers, runs } = await running()
    const { backplane } = all.members[0]!
    const command = backplane.command.bind(backplane)
    backplane.command = async one => {
      if (one[0] === 'SET' && one[1].startsWith('k:')) throw new Error('OOM command not allowed')
      return command(one)
    }
    all.hub.flush()
    const refused = await repeat(1)
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1'])
    expect(runs()).toEqual([1, 0, 0])
    backplane.command = command
    call.open()
    call.result()
    for (const answer of await Promise.all(answers)) expect(gist(await ended(answer))).toEqual([1])
  })

  it('are written again once for each time that they are lost, also where only some are', async () => {
    const endpoints = [0, 1].map(i => rawEndpoint(call => call.result(), { session: `s${i}` }))
    const all = await cluster(i => endpoints[i] as RawEndpoint, {}, { lease: LEASE }, 2)
    await ended(post(all.members[0]!.url, initialize(VERSION)))
    await settled(all as Anywhere)
    const { backplane } = all.members[0]!
    const command = backplane.command.bind(backplane)
    let written = 0
    backplane.command = async one => {
      if (one[0] === 'SET' && one[1].startsWith('s:')) written++
      return command(one)
    }
    const after = async (): Promise<number> => {
      await new Promise(resolve => setTimeout(resolve, 2 * LEASE))
      return written
    }
    expect(await after()).toBe(0)
    all.hub.flush()
    expect(await after()).toBe(1)
    // The sign of life of the other one, and with it whatever else.
    const other = all.members[1]!.backplane
    const { command: its } = other
    const signs: string[] = []
    other.command = async one => {
      if (one[0] === 'SET' && one[1].startsWith('i:')) signs.push(one[1])
      return its.call(other, one)
    }
    await until(() => signs.length > 0)
    all.hub.keys.delete(signs[0]!)
    expect(await after()).toBe(2)
  })

  it('are whole again in no time after a flush, for calls that nobody has begun', async () => {
    const endpoints = [0, 1].map(() => rawEndpoint(call => call.result()))
    // Whatever waits for a part of a lease would be waited for by nobody.
    const all = await cluster(i => endpoints[i] as RawEndpoint, {}, { lease: 600_000 }, 2)
    await until(() => all.members.every(({ streams }) => streams.stats().backplane.up === 1))
    await ended(post(all.members[0]!.url, callTool(1, 'any'), keyed))
    all.hub.flush()
    const other = { ...keyed, 'idempotency-key': 'another-key-of-the-specs' }
    expect(gist(await ended(post(all.members[1]!.url, callTool(2, 'any'), other)))).toEqual([2])
  })

  it.concurrent('may be impossible to write: an instance that answers is alive', async () => {
    const all = await anywhere({}, { lease: LEASE })
    const { first, call, link } = await all.call()
    first.destroy()
    await settled(all)
    all.hub.isFull = true
    all.hub.flush()
    const waiting = await get(at(link, all, 1))
    call.emit(note('one'))
    await waiting.nextMessage()
    await new Promise(resolve => setTimeout(resolve, 3 * LEASE))
    call.result()
    await waiting.ended
    expect(gist(waiting)).toEqual(['one', 1])
    expect(all.members[0]!.streams.stats().backplane).toMatchObject({ up: 1, degraded: 1 })
  })
})

describe('close() with a backplane', () => {
  it.concurrent(
    'sends clients to other instances, lets calls run on, and keeps results that nobody fetched',
    async () => {
      const all = await anywhere({ retry: 10, resumeInterval: { min: 0 } }, { lease: LEASE })
      const { first, call, link } = await all.call({ prefer: 'rel=stream' })
      call.emit(note('one'))
      await first.nextMessage()
      await settled(all)
      const closed = all.members[0]!.streams.close()
      expect(await first.ended).toBe('end')
      const second = await get(at(link, all, 1), headersFor({ lastEventId: lastId(first) }))
      call.emit(note('two'))
      await second.nextMessage()
      second.destroy()
      await until(() => all.members[0]!.streams.stats().connections === 0)
      call.emit(note('three'))
      call.result()
      await closed
      const third = await get(at(link, all, 2), headersFor({ lastEventId: lastId(second) }))
      await third.ended
      expect(gist(third)).toEqual(['three', 1])
    }
  )

  it.concurrent('keeps an error for each call that is not done when its time is up', async () => {
    const all = await anywhere({ retry: 10, resumeInterval: { min: 0 } }, { lease: LEASE })
    const { first, call, link } = await all.call()
    call.emit(note('one'))
    await first.nextMessage()
    first.destroy()
    await settled(all)
    await all.members[0]!.streams.close({ drain: 50 })
    const second = await get(at(link, all, 1), headersFor({ lastEventId: lastId(first) }))
    await second.ended
    expect(second.messages()).toMatchObject([{ id: 1, error: { data: { reason: 'closing' } } }])
  })

  it.concurrent('refuses afterwards what it would have to ask others for', async () => {
    // Who waited would do so for two leases.
    const all = await anywhere({}, { lease: 60_000 })
    const { streams, backplane } = all.members[0]!
    // Ids and sessions are seen to by the others from now on.
    await until(() => streams.stats().backplane.up === 1)
    await streams.close({ drain: 0 })
    expect(streams.stats().backplane).toMatchObject({ up: 0, degraded: 0 })
    backplane.isUp = false
    for (const headers of [
      { 'idempotency-key': 'a key of the specs' },
      { 'mcp-session-id': 's' }
    ]) {
      const refused = await post(all.urls[0]!, callTool(1, 'any'), {
        ...headersFor({ version: VERSION }),
        ...headers
      })
      expect(refused.status).toBe(503)
      await refused.ended
      expect(JSON.parse(refused.text).error.data).toEqual({ reason: 'owner-unreachable' })
    }
  })
})
