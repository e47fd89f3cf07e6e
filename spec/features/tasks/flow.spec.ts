// A call that becomes a task, from its first answer to its result: the extension of 2026-07-28.

import { describe, expect, it } from '@jest/globals'
import { ended, errorResponse, notification, result } from '../../helpers/mcp.js'
import {
  answer,
  answerOf,
  ask,
  begin,
  callTool,
  getTask,
  RESULT,
  send,
  serveTasks,
  until
} from './setup.js'

const DATE = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)

describe('a call that has no result in time', () => {
  it('is answered with a task, which can be found at once and has the result in the end', async () => {
    const { url, calls } = await serveTasks({ pollInterval: 300 })
    const created = await callTool(url)
    expect(created.result).toEqual({
      resultType: 'task',
      taskId: expect.stringMatching(/^[\w-]{21}$/),
      status: 'working',
      createdAt: DATE,
      lastUpdatedAt: DATE,
      ttlMs: 3_600_000,
      pollIntervalMs: 300
    })
    const { taskId } = created.result
    expect(await getTask(url, taskId, { id: 7 })).toEqual(
      result(7, { ...created.result, resultType: 'complete' })
    )
    answer(await calls.nth(1))
    expect(await until(url, taskId, 'completed')).toMatchObject({
      resultType: 'complete',
      result: RESULT
    })
    // It stays what it is, however often it is looked at.
    expect(await getTask(url, taskId)).toMatchObject({ result: { result: RESULT } })
    expect(calls).toHaveLength(1)
  })

  it('is answered as ever where the result comes in time', async () => {
    const { url, streams } = await serveTasks({ after: 60_000 }, { script: call => answer(call) })
    expect(await callTool(url, 'report', { id: 'mine' })).toEqual(result('mine', RESULT))
    expect(streams.stats()).toMatchObject({ tasks: 0, bytes: 0 })
  })

  it('gets the numbers of its result as the endpoint wrote them', async () => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url)
    const { res, message } = await calls.nth(1)
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end(`{"jsonrpc":"2.0","id":${message.id},"result":{"content":[],"n":12345678901234567890}}`)
    await until(url, taskId, 'completed')
    const response = await ended(send(url, 'tasks/get', { taskId }))
    expect(response.text).toContain('"n":12345678901234567890')
  })

  it('completes where the tool reports an error, and fails where the request does', async () => {
    const { url, calls } = await serveTasks()
    const [tool, request] = [await begin(url), await begin(url)]
    answer(await calls.nth(1), { ...RESULT, isError: true })
    expect(await until(url, tool, 'completed')).toMatchObject({ result: { isError: true } })
    const { res, message } = await calls.nth(2)
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end(JSON.stringify(errorResponse(message.id, -32603, 'broken')))
    const failed = await until(url, request, 'failed')
    expect(failed.error).toEqual({ code: -32603, message: 'broken' })
    expect(failed).not.toHaveProperty('result')
  })

  it('has the result of an endpoint that writes no error as `null`', async () => {
    const { url, calls } = await serveTasks()
    const [both, none] = [await begin(url), await begin(url)]
    ;(await calls.nth(1)).emit({ jsonrpc: '2.0', id: 1, result: RESULT, error: null })
    ;(await calls.nth(2)).emit({ jsonrpc: '2.0', id: 1, error: null })
    expect(await until(url, both, 'completed')).toMatchObject({ result: RESULT })
    expect((await until(url, none, 'failed')).error.data).toEqual({ reason: 'no-response' })
  })

  it.each([
    [
      'answers with another status',
      500,
      'text/plain',
      { code: -31000, data: { reason: 'endpoint-refused', status: 500 } }
    ],
    ['says nothing in its answer', 200, 'application/json', { data: { reason: 'no-response' } }]
  ])('fails where the endpoint %s', async (_, status, type, error) => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url)
    const { res } = await calls.nth(1)
    res.writeHead(status, { 'Content-Type': type }).end('oops')
    expect(await until(url, taskId, 'failed')).toMatchObject({ error })
  })

  it('fails where its result is more than may be kept, and can be found all the same', async () => {
    const { url, calls, streams } = await serveTasks({}, {}, { maxStreamBytes: 2000 })
    const taskId = await begin(url)
    answer(await calls.nth(1), { content: [{ type: 'text', text: 'x'.repeat(5000) }] })
    const { error } = await until(url, taskId, 'failed')
    expect(error).toMatchObject({ data: { reason: 'overflow' } })
    // Of it, the error is kept.
    expect(streams.stats().bytes).toBe(JSON.stringify(error).length)
  })
})

describe('what the endpoint says on the way', () => {
  it('reaches who waits, and the task is the last event of the stream that has begun', async () => {
    const { url, calls } = await serveTasks({ after: 60 })
    const params = { name: 'report', _meta: { progressToken: 'p' } }
    const waiting = send(url, 'tools/call', params)
    const call = await calls.nth(1)
    call.emit(notification('notifications/progress', { progressToken: 'p', progress: 1 }))
    const response = await waiting
    const last = await answerOf(response)
    expect(last.result).toMatchObject({ resultType: 'task', status: 'working' })
    expect(response.messages()).toHaveLength(2)
    expect(response.messages()[0]).toMatchObject({ params: { progressToken: 'p', progress: 1 } })
    call.result(RESULT)
    await until(url, last.result.taskId, 'completed')
  })

  it('is the status of the task from then on, in few words', async () => {
    const { url, calls, streams } = await serveTasks()
    const taskId = await begin(url)
    const call = await calls.nth(1)
    const says = async (progress: object, message: string): Promise<void> => {
      call.emit(notification('notifications/progress', { progressToken: 1, ...progress }))
      for (;;) {
        const { result } = await getTask(url, taskId)
        if (result.statusMessage === message) return
      }
    }
    await says({ progress: 3, total: 10, message: 'Reading' }, 'Reading (3/10)')
    await says({ progress: 4, total: 10 }, '4/10')
    await says({ progress: 5, message: 'x'.repeat(1000) }, `${'x'.repeat(496)} (5)`)
    call.emit(notification('notifications/message', { level: 'info', data: 'dropped' }))
    // What has been read is kept no longer, and no loss to anybody.
    expect(streams.stats()).toMatchObject({ evictions: 0 })
    expect(streams.stats().bytes).toBeLessThan(1000)
    call.result(RESULT)
    expect(await until(url, taskId, 'completed')).toMatchObject({
      statusMessage: `${'x'.repeat(496)} (5)`
    })
  })
})

describe('tasks/cancel', () => {
  it('is acknowledged, ends the call at the endpoint, and leaves a task that is cancelled', async () => {
    const { url, calls, streams } = await serveTasks()
    const taskId = await begin(url)
    const call = await calls.nth(1)
    expect(await ask(url, 'tasks/cancel', { taskId })).toEqual(
      result(1, { resultType: 'complete' })
    )
    await call.closed
    const { result: task } = await getTask(url, taskId)
    expect(task).toMatchObject({ taskId, status: 'cancelled' })
    expect(task).not.toHaveProperty('result')
    expect(task).not.toHaveProperty('error')
    expect(streams.stats()).toMatchObject({ tasks: 1, bytes: 0 })
  })

  it('is acknowledged once more on a task that has ended, which stays as it was', async () => {
    const { url } = await serveTasks({ tools: { report: 'always' } }, { script: c => answer(c) })
    const taskId = await begin(url)
    await until(url, taskId, 'completed')
    expect(await ask(url, 'tasks/cancel', { taskId })).toEqual(
      result(1, { resultType: 'complete' })
    )
    expect(await getTask(url, taskId)).toMatchObject({ result: { status: 'completed' } })
  })
})

describe('settings of a tool', () => {
  const tools = { quick: 'never', slow: 'always', job: 'required' } as const

  it('`never`: its call is left to the endpoint, byte for byte', async () => {
    const { url, calls } = await serveTasks({ tools })
    const waiting = callTool(url, 'quick', { id: 'own' })
    const call = await calls.nth(1)
    expect(call.message.id).toBe('own')
    answer(call)
    expect((await waiting).result).toEqual(RESULT)
  })

  it('`always`: a task at once, however long the others wait', async () => {
    const { url } = await serveTasks({ after: 60_000, tools }, { script: c => answer(c) })
    expect((await callTool(url, 'slow')).result).toMatchObject({ resultType: 'task' })
    expect((await callTool(url, 'other')).result).toEqual(RESULT)
  })

  it('`required`: refused to a client that knows no tasks, and the tool does not run', async () => {
    const { url, calls } = await serveTasks({ tools })
    const response = await send(url, 'tools/call', { name: 'job' }, { capabilities: {} })
    expect(await answerOf(response)).toMatchObject({
      id: 1,
      error: {
        code: -32021,
        data: { requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } }
      }
    })
    expect(response.status).toBe(400)
    expect(calls).toHaveLength(0)
  })

  it('a refusal in front of the endpoint is the answer to the call, and makes no task', async () => {
    const { url, streams } = await serveTasks(
      { tools },
      { inFront: [(_req, res) => void res.status(401).json({ error: 'who?' })] }
    )
    const response = await ended(send(url, 'tools/call', { name: 'slow' }))
    expect(response.status).toBe(401)
    expect(streams.stats().tasks).toBe(0)
  })
})
