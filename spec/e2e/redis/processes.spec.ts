// Three processes, a round robin, and a Redis that is killed under them: any instance will do.

import { afterAll, describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { isWithoutRedis } from '../../helpers/backplane/redis-server.js'
import { connectV1, type ConnectedV1 } from '../../helpers/clients.js'
import { closeAll } from '../../helpers/close-all.js'
import { until } from '../../helpers/happenings.js'
import { initializeSession, post, request } from '../../helpers/mcp.js'
import { three, type Process, type Three } from './three.js'

// Each has a Redis and processes of its own, and mostly waits: so all wait at once.
afterAll(async () => {
  await closeAll()
  // Clients that were about to come back for their listen channel find out that they are closed.
  await sleep(500)
})

/** A process may stand still for two seconds on a busy machine, and is not dead then. */
const LEASE = 3000
const LEASE_BY_DEFAULT = 6000
const describeHere = isWithoutRedis ? describe.skip : describe
const text = (result: unknown): string =>
  (result as { content: { text: string }[] }).content[0]!.text

const count = (
  { client }: ConnectedV1,
  to: number,
  every: number,
  onprogress = (_: unknown) => {}
) => client.callTool({ name: 'count', arguments: { to, every } }, undefined, { onprogress })

/** The process that runs what a client calls: that of its session. */
async function ownerOf({ processes }: Three, connected: ConnectedV1): Promise<Process> {
  const pid = text(await count(connected, 1, 1)).split(' at ')[1]
  return processes.find(one => `${one.pid}` === pid)!
}

const reconnection = { maxRetries: 5 }

describeHere('three processes on one Redis', () => {
  it.concurrent(
    'serve stateful sessions, whichever of them is asked, and questions too',
    async () => {
      const all = await three(LEASE)
      const connected = await connectV1(all.url, {
        onElicit: () => ({ action: 'accept', content: { name: 'me' } }),
        reconnection
      })
      const pids = new Set<string>()
      for (let i = 0; i < 6; i++) pids.add(text(await count(connected, 2, 1)).split(' at ')[1]!)
      expect(pids.size).toBe(1)
      const asked = await connected.client.callTool({ name: 'ask', arguments: {} })
      expect(text(asked)).toMatch(/^me at /)
    }
  )

  it.concurrent(
    'tell who waits for one that was killed within 12 s, and lose nothing else',
    async () => {
      const all = await three(LEASE_BY_DEFAULT)
      const connected = await connectV1(all.url, { reconnection })
      const owner = await ownerOf(all, connected)
      const failed = count(connected, 1000, 20).catch((error: Error) => error)
      await sleep(LEASE_BY_DEFAULT * 1.3)
      await owner.takeOut()
      owner.child.kill('SIGKILL')
      const at = Date.now()
      const error = (await failed) as Error
      expect(error.message).toMatch(/gone/)
      expect(Date.now() - at).toBeLessThan(12_000)
      const again = await connectV1(all.url, { reconnection })
      expect(text(await count(again, 3, 5))).toMatch(/^3 at /)
    }
  )

  it.concurrent(
    'take its calls from one that was paused, which aborts them when it wakes',
    async () => {
      const [owner, other] = (await three(LEASE)).processes as [Process, Process]
      const { headers } = await initializeSession(owner.url, '2025-11-25')
      await sleep(LEASE * 1.3)
      const params = { name: 'count', arguments: { to: 100_000, every: 20 } }
      const _meta = { progressToken: 1 }
      const call = await post(other.url, request(1, 'tools/call', { ...params, _meta }), headers)
      await call.nextMessage()
      owner.child.kill('SIGSTOP')
      await call.ended
      const answers = call.messages().filter(({ id }) => id === 1)
      expect(answers).toMatchObject([{ error: { data: { reason: 'owner-gone' } } }])
      owner.child.kill('SIGCONT')
      await until(async () => (await owner.stats()).failures['owner-gone'] === 1)
      // It lives, and so does its session.
      const next = { name: 'count', arguments: { to: 1, every: 1 } }
      const again = await post(other.url, request(2, 'tools/call', next), headers)
      await again.ended
      expect(again.messages().at(-1)).toMatchObject({ id: 2, result: {} })
    }
  )

  it.concurrent('go on when Redis is killed and comes back empty', async () => {
    const all = await three(LEASE)
    const connected = await connectV1(all.url, { reconnection })
    const seen: number[] = []
    const counted = count(connected, 80, 25, progress =>
      seen.push((progress as { progress: number }).progress)
    )
    await sleep(500)
    await all.redis.kill()
    await sleep(500)
    await all.redis.start()
    expect(text(await counted)).toMatch(/^80 at /)
    expect(seen).toEqual(Array.from({ length: 80 }, (_, i) => i + 1))
    expect(text(await count(connected, 2, 1))).toMatch(/^2 at /)
  })

  it.concurrent('hand their clients over in a rolling deploy, and lose no call', async () => {
    const all = await three(LEASE)
    const clients = await Promise.all(
      Array.from({ length: 12 }, () => connectV1(all.url, { reconnection }))
    )
    const calls = clients.map(client => count(client, 80, 100))
    await sleep(LEASE * 1.3)
    for (const one of [...all.processes].slice(0, 2)) {
      await all.start()
      await one.takeOut()
      const exited = once(one.child, 'exit')
      one.child.kill('SIGTERM')
      expect((await exited)[0]).toBe(0)
    }
    for (const call of calls) expect(text(await call)).toMatch(/^80 at /)
  })
})
