// A Redis in trouble: calls whose client is at their own instance do not notice, others wait, and
// nobody is taken for dead by mistake.

import { describe, expect, it, jest } from '@jest/globals'
import { redisBackplane } from '../../../lib/redis/index.js'
import { isWithoutRedis, startRedis } from '../../helpers/backplane/redis-server.js'
import { openWire, type Wire } from '../../helpers/backplane/wire.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, ended, get, headersFor, initialize, post } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamUrl, type Served } from '../../helpers/serve.js'
import { gist, lastId, note, VERSION } from '../../features/backplane/setup.js'
import { ioRedis, nodeRedis } from './clients.js'

/** A busy machine stands still for as long as this at times. */
const LEASE = 1_200

// Each waits for several leases, and has a Redis and connections of its own besides.

const describeHere = isWithoutRedis ? describe.skip : describe
const sleep = (time: number): Promise<void> => new Promise(resolve => setTimeout(resolve, time))

interface Member extends Served {
  readonly wire: Wire
  readonly endpoint: RawEndpoint
}

/** Two instances, each on a wire of its own to one Redis. */
async function two() {
  const redis = await startRedis()
  let home: Member
  let away: Member

  async function member(i: number): Promise<Member> {
    const endpoint = rawEndpoint(
      call => {
        if (call.message?.method === 'quick') call.result()
      },
      { session: `s${i}`, initializeAs: 'json' }
    )
    const wire = await openWire(redis.port)
    const client = [nodeRedis, ioRedis][i]!(wire.url)
    const backplane = redisBackplane({ client, secret: 'a secret of the specs', lease: LEASE })
    const served = await serve(endpoint, { retry: 10, backplane })
    return { ...served, wire, endpoint }
  }

  const stats = ({ streams }: Member) => streams.stats().backplane
  const bothAre = (wanted: object): Promise<void> =>
    until(() =>
      [home, away].every(one =>
        Object.entries(wanted).every(([name, value]) => stats(one)[name as 'up'] === value)
      )
    )

  async function begin(): Promise<[Member, Member]> {
    home = await member(0)
    away = await member(1)
    await bothAre({ up: 1 })
    // Before that nobody judges.
    await sleep(LEASE * 1.1)
    return [home, away]
  }

  /** A call at home, followed by a client of the other instance. */
  async function relayed(): Promise<{ call: RawCall; follower: OpenStream }> {
    const opened = post(home.url, callTool(1, 'any'), headersFor({ version: VERSION }))
    const call = await home.endpoint.calls.nth(1)
    call.open()
    const first = await opened
    const { search } = new URL(streamUrl(first, home.url))
    first.destroy()
    const follower = await get(new URL(search, away.url))
    call.emit(note('one'))
    await follower.nextMessage()
    return { call, follower }
  }

  /** A call of a client that stays where it is. */
  async function local(): Promise<void> {
    const before = home.endpoint.calls.length
    const opened = post(home.url, callTool(1, 'any'), headersFor({ version: VERSION }))
    const call = await home.endpoint.calls.nth(before + 1)
    for (const text of ['one', 'two']) call.emit(note(text))
    call.result()
    const stream = await ended(opened)
    expect(gist(stream)).toEqual(['one', 'two', 1])
  }

  async function finish(call: RawCall, follower: OpenStream): Promise<void> {
    call.emit(note('two'))
    call.result()
    await follower.ended
    expect(gist(follower)).toEqual(['one', 'two', 1])
    expect(home.streams.stats().failures).toEqual({})
  }

  async function session(): Promise<() => Promise<void>> {
    await ended(post(home.url, initialize(VERSION)))
    return async () => {
      const before = away.endpoint.requests.length
      const ask = async (): Promise<OpenStream> => {
        const response = await ended(
          post(
            away.url,
            { jsonrpc: '2.0', id: 5, method: 'quick' },
            headersFor({ version: VERSION, session: 's0' })
          )
        )
        // On a busy machine both sleep for longer than such a lease at times, and say so.
        return response.status === 503 ? ask() : response
      }
      expect(gist(await ask())).toEqual([5])
      expect(away.endpoint.requests).toHaveLength(before)
    }
  }

  return { redis, begin, stats, bothAre, relayed, local, finish, session }
}

// Each has a Redis of its own and mostly waits: so they wait at once, but for the one that hears
// the warnings of all.
describeHere('two instances', () => {
  it.concurrent(
    'go on over wires of 200 ms (at a lease of 6 s: here a fifth of both)',
    async () => {
      const { begin, stats, relayed, local, finish, session } = await two()
      const [home, away] = await begin()
      for (const { wire } of [home, away]) wire.latency = 40
      const { call, follower } = await relayed()
      await local()
      const ask = await session()
      await ask()
      await sleep(2 * LEASE)
      await finish(call, follower)
      expect([stats(home).up, stats(away).up]).toEqual([1, 1])
    }
  )

  it.concurrent('go on over half-open wires, once they have others', async () => {
    const { begin, bothAre, stats, relayed, local, finish } = await two()
    const [home, away] = await begin()
    const { call, follower } = await relayed()
    for (const { wire } of [home, away]) wire.silence()
    await local()
    await until(() => stats(home).up === 0)
    await finish(call, follower)
    await bothAre({ up: 1 })
  })

  it.concurrent(
    'are nothing to calls whose clients stay, where there is no Redis at all',
    async () => {
      const { redis, begin, relayed, local, finish } = await two()
      await begin()
      const { call, follower } = await relayed()
      await redis.kill()
      await local()
      await sleep(2 * LEASE)
      await redis.start()
      await finish(call, follower)
    }
  )

  it.concurrent('can be left while Redis says nothing', async () => {
    const { redis, begin, relayed } = await two()
    const [home, away] = await begin()
    const { call, follower } = await relayed()
    redis.pause(true)
    await home.streams.close({ drain: 0 })
    await away.streams.close({ drain: 0 })
    redis.pause(false)
    follower.destroy()
    await call.closed
  })

  it.concurrent('take nobody for dead, and find all sessions again, after FLUSHALL', async () => {
    const { redis, begin, relayed, finish, session } = await two()
    await begin()
    const { call, follower } = await relayed()
    const ask = await session()
    await ask()
    await redis.command('FLUSHALL')
    await until(async () => {
      const keys = (await redis.command('KEYS', 'mcps:s:*')) as string[]
      return keys.length > 0
    })
    await ask()
    await finish(call, follower)
  })

  it.concurrent('go on while Redis takes nothing more, and say so', async () => {
    const { redis, begin, bothAre, relayed, local, finish, session } = await two()
    await begin()
    const { call, follower } = await relayed()
    const ask = await session()
    await ask()
    await redis.command('CONFIG', 'SET', 'maxmemory', '1')
    await bothAre({ up: 1, degraded: 1 })
    await local()
    await sleep(2 * LEASE)
    await finish(call, follower)
    await redis.command('CONFIG', 'SET', 'maxmemory', '0')
    await bothAre({ up: 1, degraded: 0 })
    await ask()
  })

  it('warn of a Redis that evicts their keys, and take nobody for dead', async () => {
    const { redis, begin, relayed, local, finish } = await two()
    const warnings = jest.spyOn(process, 'emitWarning').mockReturnValue()
    await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random')
    await redis.command('CONFIG', 'SET', 'maxmemory', '100mb')
    await begin()
    expect(warnings.mock.calls.map(([, options]) => options)).toEqual([
      { code: 'MCP_STREAMS_EVICTION' },
      { code: 'MCP_STREAMS_EVICTION' }
    ])
    warnings.mockRestore()
    const { call, follower } = await relayed()
    // No key is let live for long. On a busy machine they are gone at times by themselves.
    await until(async () => {
      await redis.command('CONFIG', 'SET', 'maxmemory', '1')
      if (/evicted_keys:[1-9]/.test((await redis.command('INFO', 'stats')) as string)) return true
      await redis.command('CONFIG', 'SET', 'maxmemory', '100mb')
      return false
    })
    await sleep(3 * LEASE)
    await local()
    await finish(call, follower)
  })

  it.concurrent('go on at a replica that has lost the tail', async () => {
    const { redis, begin, relayed, local, finish, session } = await two()
    const [home, away] = await begin()
    const replica = await startRedis('--replicaof', '127.0.0.1', `${redis.port}`)
    await until(async () =>
      ((await replica.command('INFO')) as string).includes('master_link_status:up')
    )
    const { call, follower } = await relayed()
    await replica.command('REPLICAOF', 'NO', 'ONE')
    const ask = await session()
    await ask()
    expect(await replica.command('KEYS', 'mcps:s:*')).toEqual([])
    for (const { wire } of [home, away]) {
      wire.target = replica.port
      wire.cut()
    }
    await redis.kill()
    await local()
    await until(async () => {
      const keys = (await replica.command('KEYS', 'mcps:s:*')) as string[]
      return keys.length > 0
    })
    await ask()
    await finish(call, follower)
  })

  it.concurrent(
    'are two until one of them is cut off, which only the other one mends',
    async () => {
      const { redis, begin, relayed, local } = await two()
      const [home, away] = await begin()
      const { call, follower } = await relayed()
      home.wire.target = undefined
      home.wire.cut()
      await local()
      await follower.ended
      // Its client has been told nothing of its call, or that it is lost.
      const again = await ended(
        get(away.url, headersFor({ version: VERSION, lastEventId: lastId(follower) }))
      )
      const told = [...follower.messages(), ...again.messages()].filter(({ error }) => error)
      expect(told).toMatchObject([{ id: 1, error: { data: { reason: 'owner-gone' } } }])
      home.wire.target = redis.port
      await call.closed
      expect(home.streams.stats().failures).toEqual({ 'owner-gone': 1 })
    }
  )
})
