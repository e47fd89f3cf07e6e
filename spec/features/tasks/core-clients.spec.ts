// Clients of 2025-11-25 with tasks, over an endpoint that has none: the official one, and `callTask`.

import { describe, expect, it } from '@jest/globals'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { callTask, type TaskState } from '../../../lib/client/index.js'
import { tasks } from '../../../lib/features/tasks/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { until } from '../../helpers/happenings.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'

const TASKS = {
  pollInterval: 20,
  tools: { slow: 'after', elicit: 'after', fail: 'after', hang: 'after', count: 'after' }
} as const
const text = (words: string) => [{ type: 'text', text: words }]
const onElicit = () => ({ action: 'accept' as const, content: { answer: 'Ann' } })

describe('client 1.x', () => {
  async function connected() {
    const endpoint = sdkV1Stateful()
    const { url } = await serve(endpoint, { tasks: tasks(TASKS) })
    const { client, errors } = await connectV1(url, { onElicit })
    await client.listTools()
    const stream = async (name: string, args: object) => {
      const messages: Json[] = []
      const calls = client.experimental.tasks
      for await (const message of calls.callToolStream(
        { name, arguments: args as Record<string, unknown> },
        CallToolResultSchema
      ))
        messages.push(message)
      return messages
    }
    return { client, errors, stream, endpoint }
  }

  it('streams a call as a task, and ends with its result', async () => {
    const { stream, errors } = await connected()
    const messages = await stream('slow', { ms: 100 })
    expect(messages[0]).toMatchObject({ type: 'taskCreated', task: { status: 'working' } })
    expect(messages.at(-1)).toMatchObject({
      type: 'result',
      result: { content: text('slow but sure') }
    })
    expect(errors).toEqual([])
  })

  it('answers a question in between', async () => {
    const { stream } = await connected()
    const last = (await stream('elicit', { message: 'Who?' })).at(-1)
    expect(last).toMatchObject({ type: 'result' })
    expect(last.result.content[0].text).toContain('Ann')
  })

  it('is told that a tool has failed', async () => {
    const { stream } = await connected()
    expect((await stream('fail', {})).at(-1)).toMatchObject({ type: 'error' })
  })

  it('calls as ever where it asks for no task', async () => {
    const { client } = await connected()
    const { content } = await client.callTool({ name: 'slow', arguments: { ms: 1 } })
    expect(content).toEqual(text('slow but sure'))
  })

  it('looks on with callTask', async () => {
    const { client } = await connected()
    const seen: TaskState[] = []
    const onStatus = (task: TaskState): void => void seen.push(task)
    const call = { name: 'slow', arguments: { ms: 100 } }
    const { content } = await callTask(client, call, { onStatus, ttl: 60_000 })
    expect(content).toEqual(text('slow but sure'))
    expect(seen[0]).toMatchObject({ status: 'working', ttl: 60_000 })
    expect(seen.at(-1)).toMatchObject({ status: 'completed' })
    const asked = await callTask(client, { name: 'elicit', arguments: {} }, { onStatus })
    expect(asked['content']).toMatchObject([{ text: expect.stringContaining('Ann') }])
  })

  it('hears what a task is doing, with callTask', async () => {
    const { client, endpoint, errors } = await connected()
    const seen: (string | undefined)[] = []
    const call = { name: 'count', arguments: { key: 'k', n: 1, paced: true } }
    const done = callTask(client, call, {
      onStatus: ({ statusMessage }) => seen.push(statusMessage)
    })
    // What is reported before there is a task is no word of it.
    await until(() => seen.length > 0)
    endpoint.log.release('k')
    await until(() => seen.includes('1 (1/1)'))
    endpoint.log.release('k')
    expect((await done)['content']).toEqual(text('counted to 1'))
    expect(errors).toEqual([])
  })

  it('cancels with callTask what is aborted', async () => {
    const { client, endpoint } = await connected()
    const abort = new AbortController()
    const onStatus = (): void => abort.abort(new Error('enough'))
    const call = callTask(client, { name: 'hang' }, { onStatus, signal: abort.signal })
    await expect(call).rejects.toThrow('enough')
    await endpoint.log.ended.nth(1)
    expect(endpoint.log.calls[0]!.signal.aborted).toBe(true)
  })
})

describe('client 2.x at 2025-11-25', () => {
  it('looks on with callTask, too', async () => {
    const { url } = await serve(sdkV2Stateful(), { tasks: tasks(TASKS) })
    const { client } = await connectV2(url, { era: '2025-11-25', onElicit })
    const seen: string[] = []
    const onStatus = ({ status }: TaskState): void => void seen.push(status)
    const call = { name: 'slow', arguments: { ms: 100 } }
    expect((await callTask(client, call, { onStatus })).content).toEqual(text('slow but sure'))
    expect(seen[0]).toBe('working')
    expect(seen.at(-1)).toBe('completed')
  })
})
