// The experimental tasks of 2025-11-25 over an endpoint without any: what is declared, raw requests
// and bad ones.

import { describe, expect, it, jest } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { tasks, type TasksOptions } from '../../../lib/features/tasks/index.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { happenings } from '../../helpers/happenings.js'
import {
  callTool,
  del,
  ended,
  get,
  headersFor,
  initializeSession,
  notification,
  post,
  request,
  result
} from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { answer, answerOf, RESULT, send } from './setup.js'

const VERSION = '2025-11-25'
const RELATED = 'io.modelcontextprotocol/related-task'

/** A session at an endpoint whose tool `report` may be a task. */
async function session(options: TasksOptions = {}, stateless = false) {
  const endpoint = rawEndpoint(
    call => {
      const { method } = call.message ?? {}
      if (method === 'ping') return answer(call, {})
      if (method === 'server/discover') return answer(call, { capabilities: { tools: {} } })
      if (call.req.method === 'GET') return call.open()
      if (call.req.method === 'DELETE') return void call.res.writeHead(200).end()
      calls.push(call)
    },
    stateless ? { stateless } : { session: 'the-session', initializeAs: 'json' }
  )
  const calls = new (endpoint.calls.constructor as new () => typeof endpoint.calls)()
  const served = await serve(endpoint, {
    tasks: tasks({ pollInterval: 20, tools: { report: 'after', ...options.tools }, ...options })
  })
  const { url } = served
  const { headers, result: declared } = await initializeSession(url, VERSION)
  const all = { accept: 'application/json, text/event-stream', ...headers }
  let id = 1
  const ask = async (method: string, params: object = {}, more: object = {}): Promise<Json> =>
    answerOf(await post(url, request(id++, method, params), { ...all, ...more }))
  const begin = async (task: object = {}): Promise<string> => {
    const created = await ask('tools/call', { name: 'report', arguments: { n: 1 }, task })
    if (created.result?.task === undefined) throw new Error(JSON.stringify(created))
    return created.result.task.taskId
  }
  const until = async (taskId: string, status: string): Promise<Json> => {
    for (;;) {
      const { result } = await ask('tasks/get', { taskId })
      if (result?.status === status) return result
      await new Promise(resolve => setTimeout(resolve, 5))
    }
  }
  return { ...served, endpoint, calls, declared, headers: all, ask, begin, until }
}

const text = (words: string) => [{ type: 'text', text: words }]

describe('what is declared', () => {
  it('is the capability, and which tools may be tasks, where the endpoint has none', async () => {
    const { declared, ask, calls } = await session()
    expect(declared.capabilities).toMatchObject({
      tools: {},
      tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } }
    })
    const listed = ask('tools/list')
    const tool = (name: string, taskSupport?: string) => ({
      name,
      ...(taskSupport && { execution: { taskSupport, other: 1 } })
    })
    const tools = [tool('report', 'forbidden'), tool('quick', 'forbidden'), tool('plain')]
    answer(await calls.nth(1), { tools })
    expect((await listed).result.tools).toEqual([tool('report', 'optional'), ...tools.slice(1)])
  })

  it('is nothing where no tool has been set, or at another revision', async () => {
    const { declared } = await session({ tools: { report: 'never' } })
    expect(declared.capabilities).not.toHaveProperty('tasks')
    const endpoint = rawEndpoint(() => undefined, { session: 's' })
    const { url } = await serve(endpoint, { tasks: tasks({ tools: { report: 'always' } }) })
    const older = await initializeSession(url, '2025-06-18')
    expect(older.result.capabilities).not.toHaveProperty('tasks')
  })

  it('does not name lists where callers cannot be told apart', async () => {
    const { declared, ask } = await session({}, true)
    expect(declared.capabilities.tasks).toEqual({ cancel: {}, requests: { tools: { call: {} } } })
    expect((await ask('tasks/list')).error.code).toBe(-32601)
  })
})

describe('a call that asks to be a task', () => {
  it('is one at once, and its result is there for as long as it was told', async () => {
    const { ask, calls, until } = await session()
    const params = { name: 'report', arguments: { n: 1 }, task: { ttl: 5000 } }
    const created = await ask('tools/call', params)
    const { task } = created.result
    expect(created.result).toEqual({
      task: {
        taskId: expect.any(String),
        status: 'working',
        createdAt: expect.any(String),
        lastUpdatedAt: expect.any(String),
        ttl: 5000,
        pollInterval: 20
      }
    })
    const { taskId } = task
    expect((await ask('tasks/get', { taskId, task: {} })).result).toEqual(task)
    const call = await calls.nth(1)
    // The endpoint hears nothing of it.
    expect(call.message.params).toEqual({ name: 'report', arguments: { n: 1 } })
    const waiting = ask('tasks/result', { taskId })
    answer(call)
    const related = { [RELATED]: { taskId } }
    expect((await waiting).result).toEqual({ ...RESULT, _meta: related })
    expect(await until(taskId, 'completed')).not.toHaveProperty('result')
    expect((await ask('tasks/result', { taskId })).result).toEqual({ ...RESULT, _meta: related })
  })

  it('without the wish, or for another tool, is left to the endpoint', async () => {
    const { ask, calls } = await session()
    const plain = ask('tools/call', { name: 'report' })
    answer(await calls.nth(1))
    expect((await plain).result).toEqual(RESULT)
    const other = ask('tools/call', { name: 'other', task: {} })
    const call = await calls.nth(2)
    expect(call.message.params.task).toEqual({})
    answer(call)
    expect((await other).result).toEqual(RESULT)
  })

  it('gives its result to who asks for it, though it was made by a client of 2026-07-28', async () => {
    const { url, calls, headers } = await session({ tools: { report: 'always' } }, true)
    const authorization = 'Bearer one'
    const call = { name: 'report', arguments: {} }
    const created = await answerOf(
      await send(url, 'tools/call', call, { headers: { authorization } })
    )
    const { taskId } = created.result
    const asking = request(1, 'tasks/result', { taskId })
    const waiting = await post(url, asking, { ...headers, authorization })
    answer(await calls.nth(1))
    expect((await answerOf(waiting)).result).toEqual(RESULT)
  })

  it('fails where its tool reports an error, and says in words which', async () => {
    const { ask, begin, calls, until } = await session()
    const taskId = await begin()
    answer(await calls.nth(1), { content: text('disk full'), isError: true })
    expect(await until(taskId, 'failed')).toMatchObject({ statusMessage: 'disk full' })
    expect((await ask('tasks/result', { taskId })).result).toMatchObject({
      isError: true,
      content: text('disk full')
    })
  })

  it('gives JSON, whatever the endpoint gives as a result', async () => {
    const { ask, begin, calls, until } = await session()
    for (const [i, value] of [null, 'done', [1, 2]].entries()) {
      const taskId = await begin()
      const { emit, message } = await calls.nth(i + 1)
      emit({ jsonrpc: '2.0', id: message.id, result: value })
      await until(taskId, 'completed')
      const { result } = await ask('tasks/result', { taskId })
      expect(result).toEqual({ _meta: { [RELATED]: { taskId } } })
    }
  })

  it('gives the error of the request, where that is what it comes to', async () => {
    const { ask, begin, calls, until } = await session()
    const taskId = await begin()
    ;(await calls.nth(1)).error(-32603, 'broken')
    await until(taskId, 'failed')
    expect((await ask('tasks/result', { taskId })).error).toEqual({
      code: -32603,
      message: 'broken'
    })
  })

  it.each([
    [-1, undefined],
    [0, undefined],
    ['1000', undefined],
    [{}, undefined],
    [null, 86_400_000],
    [1e15, 86_400_000],
    [1500.4, 1500],
    [undefined, 3_600_000]
  ])('with a ttl of %j gets %j', async (ttl, given) => {
    const { ask, calls } = await session()
    const { result, error } = await ask('tools/call', { name: 'report', task: { ttl } })
    expect(result?.task.ttl).toBe(given)
    if (given !== undefined) return
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('task.ttl') })
    expect(calls).toHaveLength(0)
  })

  it('is one task where it is sent twice under one key', async () => {
    const { url, headers, calls, streams } = await session()
    const creation = request(70, 'tools/call', { name: 'report', task: {} })
    const keyed = { ...headers, 'idempotency-key': 'sent-once-and-again' }
    const [first, second] = [
      await answerOf(await post(url, creation, keyed)),
      await answerOf(await post(url, creation, keyed))
    ]
    expect(first.result.task).toMatchObject({ status: 'working' })
    expect(second).toEqual(first)
    await calls.nth(1)
    expect(streams.stats().tasks).toBe(1)
    expect(calls).toHaveLength(1)
  })

  it.each<[string, RequestHandler[]]>([
    ['as it was sent', []],
    ['parsed in front', [express.json()]]
  ])('is one request of the endpoint’s, with a body of its own length, %s', async (_, inFront) => {
    const endpoint = rawEndpoint(call => {
      if (call.message.method === 'ping') return answer(call, {})
      calls.push(call)
    })
    const calls = new (endpoint.calls.constructor as new () => typeof endpoint.calls)()
    const { url, streams } = await serve(
      endpoint,
      { tasks: tasks({ tools: { report: 'after' } }) },
      inFront
    )
    const headers = headersFor({ version: VERSION, accept: 'application/json, text/event-stream' })
    const sent = request('the client’s', 'tools/call', { name: 'report', task: {}, n: 1 })
    const { result } = await answerOf(await post(url, sent, headers))
    const { taskId } = result.task
    const { req, message, res } = await calls.nth(1)
    expect(message.params).toEqual({ name: 'report', n: 1 })
    // What its client cancels by its own id is not the task.
    expect(message.id).not.toBe(sent.id)
    const length = Buffer.byteLength(JSON.stringify(message))
    expect(req.headers['content-length']).toBe(String(length))
    expect(
      req.rawHeaders[req.rawHeaders.findIndex(name => /^content-length$/i.test(name)) + 1]
    ).toBe(String(length))
    expect(streams.stats()).toMatchObject({ tasks: 1, live: 1 })
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result: RESULT }))
    const got = await answerOf(await post(url, request(9, 'tasks/result', { taskId }), headers))
    expect(got.result).toMatchObject(RESULT)
    expect(calls).toHaveLength(1)
  })

  it('is refused where its owner has as many as may be', async () => {
    const created = happenings('created')
    const { ask, begin, calls } = await session({ maxPerOwner: 2 })
    for (let i = 0; i < 2; i++) await begin()
    expect(created).toHaveLength(2)
    const { error } = await ask('tools/call', { name: 'report', task: {} })
    expect(error.data).toEqual({ reason: 'too-many-tasks' })
    expect(calls).toHaveLength(2)
    // There was no stream, so none has to end.
    expect(created).toHaveLength(2)
  })
})

describe('requests about a task', () => {
  it('tasks/cancel answers with the task, tells the endpoint, and refuses what has ended', async () => {
    const { ask, begin, calls, endpoint } = await session()
    const taskId = await begin()
    const call = await calls.nth(1)
    const waiting = ask('tasks/result', { taskId })
    expect((await ask('tasks/cancel', { taskId })).result).toMatchObject({
      taskId,
      status: 'cancelled'
    })
    await call.closed
    expect((await waiting).error).toMatchObject({ data: { reason: 'task-cancelled' } })
    const told = async (): Promise<Json> => {
      for (let n = 1; ; n++) {
        const { message } = await endpoint.requests.nth(n)
        if (message?.method === 'notifications/cancelled') return message
      }
    }
    expect((await told()).params.requestId).toBe(call.message.id)
    expect((await ask('tasks/cancel', { taskId })).error.code).toBe(-32602)
    expect((await ask('tasks/result', { taskId })).error.code).toBe(-32602)
    expect((await ask('tasks/get', { taskId })).result.status).toBe('cancelled')
  })

  it('tasks/update is no method of this revision: the endpoint says so', async () => {
    const { ask, begin, calls } = await session()
    const update = ask('tasks/update', { taskId: await begin(), inputResponses: {} })
    const call = await calls.nth(2)
    expect(call.message.method).toBe('tasks/update')
    call.error(-32601, 'Method not found')
    expect((await update).error.code).toBe(-32601)
  })

  it('notifications/cancelled for the call is no cancellation', async () => {
    const { url, headers, begin, ask, calls } = await session()
    const taskId = await begin()
    await ended(post(url, notification('notifications/cancelled', { requestId: 1 }), headers))
    expect((await ask('tasks/get', { taskId })).result.status).toBe('working')
    expect((await calls.nth(1)).isClosed).toBe(false)
  })

  it('tasks/result that was cut is asked again, and gives the same', async () => {
    const { url, headers, begin, ask, calls } = await session()
    const taskId = await begin()
    const cut = await post(url, request(50, 'tasks/result', { taskId }), headers)
    expect(cut.headers['content-type']).toMatch(/^text\/event-stream/)
    cut.destroy()
    const again = ask('tasks/result', { taskId })
    answer(await calls.nth(1))
    expect((await again).result).toMatchObject(RESULT)
  })

  it('tasks/list has them all, page by page', async () => {
    const { ask, begin } = await session()
    const ids: string[] = []
    for (let i = 0; i < 53; i++) ids.push(await begin())
    const first = (await ask('tasks/list')).result
    expect(first.tasks).toHaveLength(50)
    const second = (await ask('tasks/list', { cursor: first.nextCursor })).result
    expect(second).not.toHaveProperty('nextCursor')
    const listed = [...first.tasks, ...second.tasks].map((task: Json) => task.taskId)
    expect(listed).toEqual(ids)
    for (const cursor of ['made-up', 5, null])
      expect((await ask('tasks/list', { cursor })).error.code).toBe(-32602)
  })

  it.each(['tasks/get', 'tasks/result', 'tasks/cancel'])(
    '%s knows no ids that are made up, of others, oversized, or none',
    async method => {
      const { ask, begin } = await session()
      const taskId = await begin()
      const others = { authorization: 'Bearer other' }
      const unknown = { code: -32602, data: { reason: 'task-unknown' } }
      expect((await ask(method, { taskId }, others)).error).toMatchObject(unknown)
      for (const id of ['made-up', '__proto__', 'x'.repeat(10_000)])
        expect((await ask(method, { taskId: id })).error).toMatchObject(unknown)
      expect((await ask(method)).error.message).toContain('taskId')
      expect((await ask('tasks/get', { taskId })).result.status).toBe('working')
    }
  )

  it('tasks of a session that has ended are gone, and what runs of them', async () => {
    const { url, headers, ask, begin, calls, streams } = await session()
    const taskId = await begin()
    await ended(del(url, headers))
    await (
      await calls.nth(1)
    ).closed
    expect(streams.stats().tasks).toBe(0)
    expect((await ask('tasks/get', { taskId })).error.code).toBe(-32602)
  })
})

describe('a question of the endpoint', () => {
  const question = (id: string) => request(id, 'elicitation/create', { message: 'Who?' })
  const related = (taskId: string) => ({ [RELATED]: { taskId } })

  it('reaches who waits for the result, and its answer the endpoint', async () => {
    const { url, headers, begin, until, calls } = await session()
    const taskId = await begin()
    const waiting = await post(url, request(60, 'tasks/result', { taskId }), headers)
    const call = await calls.nth(1)
    call.emit(question('q1'))
    expect(await waiting.nextMessage()).toMatchObject({ method: 'ping' })
    const asked = await waiting.nextMessage()
    expect(asked).toMatchObject({ id: 'q1', params: { message: 'Who?', _meta: related(taskId) } })
    await until(taskId, 'input_required')
    await ended(post(url, result('q1', { action: 'accept' }), headers))
    await until(taskId, 'working')
    call.result(RESULT)
    const last = await answerOf(waiting)
    expect(last).toMatchObject({ id: 60, result: { ...RESULT, _meta: related(taskId) } })
  })

  it('reaches the listen channel where nobody waits, once, with the changes of status', async () => {
    const { url, headers, ask, begin, until, calls } = await session()
    const channel = await get(url, { ...headers, accept: 'text/event-stream' })
    const taskId = await begin()
    const call = await calls.nth(1)
    call.emit(question('q2'))
    await until(taskId, 'input_required')
    const waiting = ask('tasks/result', { taskId })
    await ended(post(url, result('q2', { action: 'accept' }), headers))
    await until(taskId, 'working')
    call.result(RESULT)
    expect((await waiting).result).toMatchObject(RESULT)
    const seen = (): string[] =>
      channel.messages().map(({ method, params }: Json) => params?.status ?? method)
    while (!seen().includes('completed')) await new Promise(resolve => setTimeout(resolve, 5))
    expect(seen()).toEqual(['input_required', 'elicitation/create', 'working', 'completed'])
    const [changed, asked] = channel.messages()
    expect(asked).toMatchObject({ id: 'q2', params: { _meta: related(taskId) } })
    expect(changed).toMatchObject({
      method: 'notifications/tasks/status',
      params: { taskId, status: 'input_required', ttl: 3_600_000 }
    })
  })

  it('costs nothing any more once it has been answered, or taken back', async () => {
    const { url, headers, begin, until, calls, streams } = await session()
    const taskId = await begin()
    const call = await calls.nth(1)
    const { bytes } = streams.stats()
    const large = (id: string) => request(id, 'elicitation/create', { message: 'x'.repeat(10_000) })
    call.emit(large('answered'))
    await until(taskId, 'input_required')
    expect(streams.stats().bytes).toBeGreaterThan(bytes + 10_000)
    await ended(post(url, result('answered', { action: 'accept' }), headers))
    await until(taskId, 'working')
    expect(streams.stats().bytes).toBe(bytes)
    call.emit(large('taken back'))
    await until(taskId, 'input_required')
    call.emit(notification('notifications/cancelled', { requestId: 'taken back' }))
    await until(taskId, 'working')
    expect(streams.stats().bytes).toBe(bytes)
  })

  it('waits for somebody to hear it', async () => {
    const { url, headers, begin, until, calls } = await session()
    const taskId = await begin()
    ;(await calls.nth(1)).emit(question('q3'))
    await until(taskId, 'input_required')
    const waiting = await post(url, request(61, 'tasks/result', { taskId }), headers)
    expect(await waiting.nextMessage()).toMatchObject({ method: 'ping' })
    expect(await waiting.nextMessage()).toMatchObject({ id: 'q3' })
    waiting.destroy()
    // Again on each new wire, and once on each.
    const again = await post(url, request(63, 'tasks/result', { taskId }), headers)
    expect(await again.nextMessage()).toMatchObject({ method: 'ping' })
    expect(await again.nextMessage()).toMatchObject({ id: 'q3' })
    await until(taskId, 'input_required')
    calls[0]!.result(RESULT)
    await again.ended
    expect(again.messages().map(({ id }: Json) => id)).toEqual([
      expect.stringContaining('ping'),
      'q3',
      63
    ])
  })

  it('is not asked of a client that cancels the task', async () => {
    const { url, headers, ask, begin, until, calls } = await session()
    const taskId = await begin()
    ;(await calls.nth(1)).emit(question('q6'))
    await until(taskId, 'input_required')
    const channel = await get(url, { ...headers, accept: 'text/event-stream' })
    await ask('tasks/cancel', { taskId })
    expect((await channel.nextMessage()).params).toMatchObject({ taskId, status: 'cancelled' })
  })

  it('reaches the next listen channel, once, where the one that it was given on has ended', async () => {
    const { url, headers, ask, begin, until, calls, endpoint } = await session()
    const listen = () => get(url, { ...headers, accept: 'text/event-stream' })
    const first = await listen()
    const taskId = await begin()
    const call = await calls.nth(1)
    call.emit(question('q5'))
    await until(taskId, 'input_required')
    const asked = (channel: typeof first): number =>
      channel.messages().filter(({ id }: Json) => id === 'q5').length
    while (asked(first) === 0) await first.nextMessage()
    endpoint.requests.find(({ req }) => req.method === 'GET')!.res.end()
    await first.ended
    const second = await listen()
    for (let look = 0; look < 3; look++) await ask('tasks/get', { taskId })
    while (asked(second) === 0) await second.nextMessage()
    await ask('tasks/get', { taskId })
    await ended(post(url, result('q5', { action: 'accept' }), headers))
    call.result(RESULT)
    await until(taskId, 'completed')
    const seen = (): unknown[] => second.messages().map(({ params }: Json) => params?.status)
    while (!seen().includes('completed')) await second.nextMessage()
    expect([asked(first), asked(second)]).toEqual([1, 1])
  })

  it("on the listen channel is the task's, where that is the only call", async () => {
    const { url, headers, ask, begin, until, calls, endpoint } = await session()
    const channel = await get(url, { ...headers, accept: 'text/event-stream' })
    const { emit } = endpoint.requests.find(({ req }) => req.method === 'GET')!
    const asked = async (id: string): Promise<Json> => {
      emit(question(id))
      for (;;) {
        const message = await channel.nextMessage()
        if (message.id === id) return message
      }
    }
    const none = { message: 'Who?' }
    expect((await asked('q7')).params).toEqual(none)
    const taskId = await begin()
    const waiting = await post(url, request(60, 'tasks/result', { taskId }), headers)
    expect((await asked('q8')).params).toEqual({ ...none, _meta: related(taskId) })
    await until(taskId, 'input_required')
    await ended(post(url, result('q8', { action: 'accept' }), headers))
    await until(taskId, 'working')
    expect((await asked('q9')).params).toEqual({ ...none, _meta: related(taskId) })
    await until(taskId, 'input_required')
    emit(notification('notifications/cancelled', { requestId: 'q9' }))
    await until(taskId, 'working')

    const plain = post(url, callTool(61, 'other'), headers)
    const call = await calls.nth(2)
    call.open()
    await plain
    expect((await asked('q10')).params).toEqual(none)
    call.result(RESULT)
    await ended(plain)
    const other = await begin()
    expect((await asked('q11')).params).toEqual(none)
    await ask('tasks/cancel', { taskId: other })
    expect((await asked('q12')).params).toEqual({ ...none, _meta: related(taskId) })
    calls[0]!.result(RESULT)
    expect((await answerOf(waiting)).result).toMatchObject(RESULT)
  })

  it('fails the task at once where there is no session to answer in', async () => {
    const { ask, begin, calls, until } = await session({}, true)
    const taskId = await begin()
    const call = await calls.nth(1)
    call.emit(question('q4'))
    const { statusMessage } = await until(taskId, 'failed')
    expect(statusMessage).toContain('session')
    await call.closed
    expect((await ask('tasks/result', { taskId })).error.data).toEqual({
      reason: 'question-without-session'
    })
  })

  it('is no hindrance: progress goes on by the token of the call', async () => {
    const { url, headers, ask, calls, until } = await session()
    const { params } = callTool(1, 'report', {}, 'p') as Json
    const created = await ask('tools/call', { ...params, task: {} })
    const { taskId } = created.result.task
    const waiting = await post(url, request(62, 'tasks/result', { taskId }), headers)
    const progress = { progressToken: 'p', progress: 1, total: 2, message: 'half' }
    ;(await calls.nth(1)).emit(notification('notifications/progress', progress))
    expect(await waiting.nextMessage()).toMatchObject({
      params: { ...progress, _meta: { [RELATED]: { taskId } } }
    })
    expect(await until(taskId, 'working')).toMatchObject({ statusMessage: 'half (1/2)' })
  })
})

describe('progress of a task', () => {
  it('is told on the listen channel once a second, and each change of status at once', async () => {
    const { url, headers, begin, calls, until } = await session()
    const channel = await get(url, { ...headers, accept: 'text/event-stream' })
    const taskId = await begin()
    const call = await calls.nth(1)
    const time = performance.now()
    const clock = jest.spyOn(performance, 'now').mockReturnValue(time)
    const report = async (progress: number): Promise<void> => {
      call.emit(notification('notifications/progress', { progressToken: 1, progress }))
      while ((await until(taskId, 'working')).statusMessage !== `${progress}`);
    }
    for (const progress of [1, 2, 3]) await report(progress)
    clock.mockReturnValue(time + 999)
    await report(4)
    clock.mockReturnValue(time + 1000)
    for (const progress of [5, 6]) await report(progress)
    call.result(RESULT)
    await until(taskId, 'completed')
    const told = (): string[] =>
      channel
        .messages()
        .filter(({ method }: Json) => method === 'notifications/tasks/status')
        .map(({ params }: Json) => `${params.status} ${params.statusMessage}`)
    while (told().length < 3) await channel.nextMessage()
    expect(told()).toEqual(['working 1', 'working 5', 'completed 6'])
  })
})

describe('an endpoint with tasks of its own', () => {
  it('is left alone', async () => {
    const own = { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } }
    const script = (call: RawCall): void =>
      call.message.method === 'initialize'
        ? answer(call, { protocolVersion: VERSION, capabilities: own })
        : answer(call, { by: call.message.method })
    const endpoint = rawEndpoint(script)
    const { url } = await serve(endpoint, { tasks: tasks({ tools: { report: 'always' } }) })
    const headers = headersFor({ version: VERSION, accept: 'application/json, text/event-stream' })
    const ask = async (method: string, params: object): Promise<Json> =>
      answerOf(await post(url, request(1, method, params), headers))
    const declared = await ask('initialize', { protocolVersion: VERSION, capabilities: {} })
    expect(declared.result.capabilities).toEqual(own)
    const call = await ask('tools/call', { name: 'report', task: {} })
    expect(call.result).toEqual({ by: 'tools/call' })
    for (const method of ['tasks/get', 'tasks/result', 'tasks/list', 'tasks/cancel'])
      expect((await ask(method, { taskId: 'own' })).result).toEqual({ by: method })
  })
})
