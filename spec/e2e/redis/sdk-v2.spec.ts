// The official SDK, version 2, at both ends, with three processes behind a round robin between
// them: cut, slow, asked for elsewhere, and deployed anew. Each call runs once, and is answered
// once.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { callTask, resumableFetch, type TaskState } from '../../../lib/client/index.js'
import { isWithoutRedis } from '../../helpers/backplane/redis-server.js'
import { connectV2, type ConnectedV2, type ConnectV2Options } from '../../helpers/clients.js'
import { closeAll } from '../../helpers/close-all.js'
import { until } from '../../helpers/happenings.js'
import { three, type Three } from './three.js'

/** A process may stand still for two seconds on a busy machine, and is not dead then. */
const LEASE = 3000
const describeHere = isWithoutRedis ? describe.skip : describe
const reconnection = { maxRetries: 20 }

let all: Three

if (!isWithoutRedis) beforeAll(async () => void (all = await three(LEASE, 'instance-v2.js')))
afterAll(async () => {
  await closeAll()
  // Clients that were about to come back find out that they are closed.
  await sleep(500)
})

let keys = 0

const runs = (key: string): number =>
  all.processes.flatMap(({ printed }) => printed).filter(line => line === key).length

/** A call, which is given its answer, run once; with what it has seen of progress meanwhile. */
async function call({ client }: ConnectedV2, name: string, ms: number): Promise<number[]> {
  const key = `call ${keys++}`
  const seen: number[] = []
  const onprogress = ({ progress }: { progress: number }): void => void seen.push(progress)
  const params = { name, arguments: { key, ms } }
  const { content } = await client.callTool(params, name === 'count' ? { onprogress } : {})
  expect(content).toEqual([{ type: 'text', text: expect.stringMatching(`^${key} at `) }])
  expect(runs(key)).toBe(1)
  return seen
}

const allRuns = (): number => all.processes.reduce((sum, { printed }) => sum + printed.length, 0)

const counted = (ms: number): number[] => Array.from({ length: ms / 20 }, (_, i) => i + 1)

/** What sends its requests, and how many of each method. */
function counting(): { fetch: NonNullable<ConnectV2Options['fetch']>; sent: string[] } {
  const sent: string[] = []
  return {
    sent,
    fetch: (url, init) => {
      sent.push(init?.method === 'POST' ? JSON.parse(String(init.body)).method : 'GET')
      return fetch(url, init)
    }
  }
}

describeHere('three processes with SDK v2 on one Redis', () => {
  it('serve calls whose wires are cut, at whichever of them they come back', async () => {
    const stock = await connectV2(all.url, { era: '2025-11-25', reconnection })
    const resuming = await connectV2(all.url, { fetch: resumableFetch({ minTimeout: 10 }) })
    const before = allRuns()
    const calls = [stock, resuming].map(connected => call(connected, 'count', 800))
    await until(() => allRuns() === before + 2)
    for (let i = 0; i < 5; i++) {
      await sleep(100)
      all.cut()
    }
    for (const seen of await Promise.all(calls)) expect(seen).toEqual(counted(800))
  })

  it('answer slow JSON: by an event stream, and by states that any of them knows', async () => {
    const { fetch, sent } = counting()
    const modern = await connectV2(all.url, { fetch })
    const stock = await connectV2(all.url, { era: '2025-11-25', reconnection })
    await Promise.all([call(modern, 'slow', 3000), call(stock, 'slow', 3000)])
    expect(sent.filter(method => method === 'tools/call').length).toBeGreaterThan(2)
  })

  it.each([
    ['2025-11-25', undefined],
    ['2026-07-28', resumableFetch({ tasks: true, minTimeout: 10 })]
  ] as const)('know the tasks of each other, at %s', async (era, fetch) => {
    const { client } = await connectV2(all.url, { era, reconnection, ...(fetch && { fetch }) })
    const key = `call ${keys++}`
    const seen: TaskState[] = []
    const onStatus = (task: TaskState): void => void seen.push(task)
    const { content } = await callTask(
      client,
      { name: 'job', arguments: { key, ms: 600 } },
      { onStatus }
    )
    expect(content).toEqual([{ type: 'text', text: expect.stringMatching(`^${key} at `) }])
    expect(runs(key)).toBe(1)
    expect(seen.at(-1)).toMatchObject({ status: 'completed' })
  })

  it('are deployed anew, one after the other, under calls of all kinds', async () => {
    const modern = await connectV2(all.url)
    const resuming = await connectV2(all.url, { fetch: resumableFetch({ minTimeout: 10 }) })
    const stock = await connectV2(all.url, { era: '2025-11-25', reconnection })
    const before = allRuns()
    const clients = [modern, resuming, stock]
    const calls = clients.flatMap(one => [
      ...[1, 2, 3].map(() => call(one, 'slow', 2500)),
      ...[1, 2, 3].map(() => call(one, 'count', 2500))
    ])
    await until(() => allRuns() === before + calls.length)
    for (const one of [...all.processes]) {
      await all.start()
      await one.takeOut()
      const exited = once(one.child, 'exit')
      one.child.kill('SIGTERM')
      expect((await exited)[0]).toBe(0)
    }
    await Promise.all(calls)
  })
})
