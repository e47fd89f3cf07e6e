// How long a task can be found, what it costs, and what becomes of it when the process ends.

import { describe, expect, it, jest } from '@jest/globals'
import { tasks } from '../../../lib/features/tasks/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import { happenings } from '../../helpers/happenings.js'
import { headersFor, post, request } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import {
  RESULT,
  answer,
  ask,
  begin,
  callTool,
  elicitation,
  getTask,
  inputRequired,
  serveTasks,
  until
} from './setup.js'

/** So many milliseconds later, for all that lasts. */
function after(milliseconds: number): void {
  const time = performance.now() + milliseconds
  jest.spyOn(performance, 'now').mockImplementation(() => time)
}

const TTL = { ttl: { default: 60_000 } }

describe('a task', () => {
  it('is found for its whole time, and not a moment longer', async () => {
    const { url, calls, streams } = await serveTasks(TTL)
    const [ended, running] = [await begin(url), await begin(url)]
    answer(await calls.nth(1))
    await until(url, ended, 'completed')
    after(50_000)
    expect(await getTask(url, ended)).toMatchObject({ result: { result: RESULT, ttlMs: 60_000 } })
    expect(await getTask(url, running)).toMatchObject({ result: { status: 'working' } })
    after(11_000)
    for (const id of [ended, running])
      expect(await getTask(url, id)).toMatchObject({ error: { code: -32602 } })
    // What still runs is for nobody any more.
    await calls[1]!.closed
    expect(streams.stats()).toMatchObject({ tasks: 0, bytes: 0 })
  })

  it('is let go when its time is over, without anybody asking', async () => {
    const { url, calls, streams } = await serveTasks({ ttl: { default: 50 } })
    await begin(url)
    await (
      await calls.nth(1)
    ).closed
    while (streams.stats().tasks > 0) await new Promise(resolve => setTimeout(resolve, 20))
    expect(streams.stats()).toMatchObject({ tasks: 0, bytes: 0 })
  })

  it('does not end because nobody looks: its client may be away for its time', async () => {
    const { url, calls } = await serveTasks({}, {}, { resumeInterval: { max: 0.02 } })
    const taskId = await begin(url)
    const call = await calls.nth(1)
    await new Promise(resolve => setTimeout(resolve, 60))
    expect(call.isClosed).toBe(false)
    answer(call)
    await until(url, taskId, 'completed')
  })

  it('counts what is kept of it, and nothing once its result is all', async () => {
    const { url, calls, streams } = await serveTasks()
    const taskId = await begin(url)
    const waiting = streams.stats().bytes
    expect(waiting).toBeGreaterThan(100)
    expect(waiting).toBeLessThan(1000)
    const text = 'x'.repeat(10_000)
    answer(await calls.nth(1), { content: [{ type: 'text', text }] })
    await until(url, taskId, 'completed')
    const { bytes, tasks } = streams.stats()
    expect(bytes).toBeGreaterThan(10_000)
    expect(bytes).toBeLessThan(10_500)
    expect(tasks).toBe(1)
  })
})

describe('the request of a call', () => {
  const LARGE = 100_000
  const callLarge = (url: string) =>
    ask(url, 'tools/call', { name: 'report', arguments: { text: 'x'.repeat(LARGE) } })

  it('counts as long as the call may become a task, since further rounds repeat it', async () => {
    const { url, calls, streams } = await serveTasks({ after: 60_000 })
    const called = callLarge(url)
    const call = await calls.nth(1)
    expect(streams.stats().bytes).toBeGreaterThan(LARGE)
    expect(streams.stats().bytes).toBeLessThan(LARGE + 1000)
    answer(call)
    expect((await called).result).toEqual(RESULT)
    expect(streams.stats()).toMatchObject({ tasks: 0, bytes: 0 })
  })

  it('counts for the task and for the endpoint that works on it, and not once that is over', async () => {
    const { url, calls, streams } = await serveTasks()
    const { result } = await callLarge(url)
    await calls.nth(1)
    expect(streams.stats().bytes).toBeGreaterThan(2 * LARGE)
    expect(streams.stats().bytes).toBeLessThan(2 * LARGE + 8000)
    answer(calls[0]!)
    await until(url, result.taskId, 'completed')
    expect(streams.stats().bytes).toBeLessThan(1000)
  })

  it('is none that becomes a task where there is no room for it: the endpoint answers', async () => {
    const options = { maxBytes: LARGE / 2, maxStreamBytes: LARGE / 2 }
    const { url, calls, streams } = await serveTasks({ after: 20 }, {}, options)
    const called = callLarge(url)
    const call = await calls.nth(1)
    await new Promise(resolve => setTimeout(resolve, 60))
    expect(streams.stats()).toMatchObject({ tasks: 0, bytes: 0 })
    answer(call)
    expect((await called).result).toEqual(RESULT)
  })
})

describe('the end of the process', () => {
  it('waits for tasks that run, and makes no new ones', async () => {
    const { url, streams, calls } = await serveTasks()
    const taskId = await begin(url)
    const closing = streams.close({ drain: 10_000 })
    const plain = callTool(url)
    answer(await calls.nth(2))
    expect((await plain).result).toEqual(RESULT)
    expect(await getTask(url, taskId)).toMatchObject({ result: { status: 'working' } })
    answer(calls[0]!)
    await until(url, taskId, 'completed')
    await closing
  })

  it('does not wait for a task from when it waits for its client', async () => {
    const { url, streams, calls } = await serveTasks()
    const taskId = await begin(url)
    const closing = streams.close({ drain: 120_000 })
    answer(await calls.nth(1), inputRequired({ q: elicitation('Which?') }))
    await closing
    expect(await getTask(url, taskId)).toMatchObject({ result: { status: 'input_required' } })
  })

  it('waits for a task that goes on with what its client has answered meanwhile', async () => {
    const { url, streams, calls } = await serveTasks()
    const taskId = await begin(url)
    answer(await calls.nth(1), inputRequired({ q: elicitation('Which?') }))
    await until(url, taskId, 'input_required')
    const opened = post(url, request(2, 'tools/call'), headersFor({ version: '2025-11-25' }))
    const other = await calls.nth(2)
    other.open()
    const stream = await opened
    let isClosed = false
    const closing = streams.close({ drain: 10_000 }).then(() => (isClosed = true))
    await ask(url, 'tasks/update', { taskId, inputResponses: { 'r1.q': {} } })
    const round = await calls.nth(3)
    other.result()
    await stream.ended
    expect((await getTask(url, taskId)).result.status).toBe('working')
    expect(isClosed).toBe(false)
    answer(round)
    await closing
    expect((await getTask(url, taskId)).result.status).toBe('completed')
  })

  it('makes no task of a call whose client is being asked about, and no refusal', async () => {
    const refused = happenings('refused')
    const asked = gate()
    const goOn = gate()
    const endpoint = rawEndpoint(async call => {
      if (call.message.method !== 'server/discover') return answer(call)
      asked.open()
      await goOn.opened
      answer(call, { capabilities: {} })
    })
    const { url, streams } = await serve(endpoint, {
      tasks: tasks({ tools: { report: 'always' } })
    })
    const called = callTool(url)
    await asked.opened
    const closing = streams.close({ drain: 10_000 })
    goOn.open()
    expect((await called).result).toEqual(RESULT)
    await closing
    expect(refused).toEqual([])
  })

  it('gives up what has not ended in time', async () => {
    const { url, streams, calls } = await serveTasks()
    await begin(url)
    const call = await calls.nth(1)
    await streams.close({ drain: 0 })
    await call.closed
    expect(streams.stats()).toMatchObject({ tasks: 0, bytes: 0 })
  })
})
