// Requests about tasks that are wrong in some way: each is told what was wrong, and costs nothing
// else.

import { describe, expect, it } from '@jest/globals'
import { headersFor, post, request } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import {
  answer,
  answerOf,
  ask,
  begin,
  callTool,
  elicitation,
  EXTENSION,
  getTask,
  inputRequired,
  RESULT,
  send,
  serveTasks,
  until
} from './setup.js'

const METHODS = ['tasks/get', 'tasks/update', 'tasks/cancel']

describe('a request about a task', () => {
  it.each(METHODS)('%s without the declaration: 400 and -32021', async method => {
    const { url } = await serveTasks()
    const taskId = await begin(url)
    const params = { taskId, inputResponses: {} }
    const response = await send(url, method, params, { capabilities: { tasks: {} } })
    expect(await answerOf(response)).toMatchObject({ id: 1, error: { code: -32021 } })
    expect(response.status).toBe(400)
    expect(await getTask(url, taskId)).toMatchObject({ result: { status: 'working' } })
  })

  const listening = { notifications: { taskIds: ['a'] } }

  it('subscriptions/listen for tasks without the declaration: 400 and -32021', async () => {
    const { url, calls } = await serveTasks()
    const options = { capabilities: {} }
    const response = await send(url, 'subscriptions/listen', listening, options)
    expect(await answerOf(response)).toMatchObject({ id: 1, error: { code: -32021 } })
    expect(response.status).toBe(400)
    expect(calls).toHaveLength(0)
  })

  it.each<[string, object, object]>([
    ['with it', listening, {}],
    ['for something else', { notifications: { toolsListChanged: true } }, { capabilities: {} }],
    ['at an endpoint with tasks of its own', listening, { capabilities: {} }]
  ])('subscriptions/listen %s is the endpoint’s affair', async (what, params, options) => {
    const own = what.endsWith('own') ? { extensions: { [EXTENSION]: {} } } : {}
    const { url, calls } = await serveTasks({}, { capabilities: { tools: {}, ...own } })
    const listening = send(url, 'subscriptions/listen', { ...params }, options)
    const call = await calls.nth(1)
    expect(call.message.params).toMatchObject(params)
    answer(call, {})
    expect((await answerOf(await listening)).result).toEqual({})
  })

  it.each(['tasks/result', 'tasks/list'])('%s: not a method any more', async method => {
    const { url } = await serveTasks()
    const response = await send(url, method, { taskId: await begin(url) })
    expect(await answerOf(response)).toMatchObject({ id: 1, error: { code: -32601 } })
    expect(response.status).toBe(404)
  })

  const encoded = (text: string): string => `=?base64?${Buffer.from(text).toString('base64')}?=`
  it.each<[string, Record<string, string | undefined>]>([
    ['another Mcp-Name', { 'mcp-name': 'another' }],
    ['no Mcp-Name', { 'mcp-name': undefined }],
    ['an encoded name that is another', { 'mcp-name': encoded('another') }],
    ['an encoded name that is none', { 'mcp-name': '=?base64?!!?=' }],
    ['an encoded name that is no text', { 'mcp-name': '=?base64?/w==?=' }],
    ['another Mcp-Method', { 'mcp-method': 'tasks/cancel' }],
    ['no Mcp-Method', { 'mcp-method': undefined }]
  ])('with %s: 400 and -32020', async (_, headers) => {
    const { url } = await serveTasks()
    const response = await send(url, 'tasks/get', { taskId: await begin(url) }, { headers })
    expect(await answerOf(response)).toMatchObject({ id: 1, error: { code: -32020 } })
    expect(response.status).toBe(400)
  })

  it('with an encoded name that is the same: found', async () => {
    const { url } = await serveTasks()
    const taskId = await begin(url)
    const headers = { 'mcp-name': encoded(taskId) }
    expect(await getTask(url, taskId, { headers })).toMatchObject({ result: { taskId } })
  })

  it.each([
    ['made up', 'AAAAAAAAAAAAAAAAAAAAA'],
    ['empty', ''],
    ['a name of an object', '__proto__'],
    ['oversized', 'x'.repeat(8000)]
  ])('with an id that is %s: -32602', async (_, taskId) => {
    const { url } = await serveTasks()
    await begin(url)
    expect(await getTask(url, taskId, { headers: { 'mcp-name': taskId } })).toMatchObject({
      error: { code: -32602 }
    })
  })

  it.each([[undefined], [null], [5], [['a']], [{}]])('with the id %j: -32602', async taskId => {
    const { url } = await serveTasks()
    await begin(url)
    const { error } = await getTask(url, taskId)
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('taskId') })
  })

  it.each([[undefined], [null], ['x'], [[]]])('tasks/update with %j: -32602', async given => {
    const { url } = await serveTasks()
    const params = { taskId: await begin(url), inputResponses: given }
    const { error } = await ask(url, 'tasks/update', params)
    expect(error).toMatchObject({
      code: -32602,
      message: expect.stringContaining('inputResponses')
    })
  })

  it('in a batch: the endpoint refuses it', async () => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url)
    const headers = headersFor({ version: '2026-07-28', accept: '*/*' })
    const batch = post(url, [request(1, 'tasks/get', { taskId })], headers)
    const { res, message } = await calls.nth(2)
    expect(message).toMatchObject([{ method: 'tasks/get' }])
    res.writeHead(400).end('no batches')
    const response = await batch
    await response.ended
    expect(response.text).toBe('no batches')
  })

  it('as a notification: the endpoint hears it', async () => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url)
    const headers = headersFor({ version: '2026-07-28' })
    const told = post(url, { jsonrpc: '2.0', method: 'tasks/cancel', params: { taskId } }, headers)
    const { res } = await calls.nth(2)
    res.writeHead(202).end()
    expect((await told).status).toBe(202)
    expect(await getTask(url, taskId)).toMatchObject({ result: { status: 'working' } })
  })
})

describe('answers', () => {
  async function asking() {
    const served = await serveTasks()
    const ids = [await begin(served.url), await begin(served.url)] as const
    for (const n of [1, 2])
      answer(
        await served.calls.nth(n),
        inputRequired({ q: elicitation(`${n}?`), r: elicitation('') })
      )
    for (const id of ids) await until(served.url, id, 'input_required')
    return { ...served, ids }
  }
  const accept = { action: 'accept', content: {} }
  const keys = (task: Json): string[] => Object.keys(task.result.inputRequests)

  it('to nothing that is asked, or to it twice, are acknowledged and change nothing', async () => {
    const { url, calls, ids } = await asking()
    const update = (taskId: string, inputResponses: object) =>
      ask(url, 'tasks/update', { taskId, inputResponses })
    const acknowledged = { result: { resultType: 'complete' } }
    const unknown = { q: accept, 'r2.q': accept, toString: accept, ['__proto__x']: accept }
    expect(await update(ids[0], unknown)).toMatchObject(acknowledged)
    expect(keys(await getTask(url, ids[0]))).toEqual(['r1.q', 'r1.r'])
    for (let i = 0; i < 2; i++)
      expect(await update(ids[0], { 'r1.q': accept })).toMatchObject(acknowledged)
    expect(keys(await getTask(url, ids[0]))).toEqual(['r1.r'])
    // Of another task.
    expect(keys(await getTask(url, ids[1]))).toEqual(['r1.q', 'r1.r'])
    expect(calls).toHaveLength(2)
  })

  it('after the end are acknowledged, and the task stays as it was', async () => {
    const { url, ids } = await asking()
    const [taskId] = ids
    await ask(url, 'tasks/cancel', { taskId })
    const late = await ask(url, 'tasks/update', { taskId, inputResponses: { 'r1.q': accept } })
    expect(late.result).toEqual({ resultType: 'complete' })
    expect(await getTask(url, taskId)).toMatchObject({ result: { status: 'cancelled' } })
  })

  it.each([
    ['characters', 'x'.repeat(9000)],
    ['bytes', '語'.repeat(1500)]
  ])(
    'that are more %s than may be kept are refused, and the question stays open',
    async (_, text) => {
      const { url, calls } = await serveTasks({}, {}, { maxStreamBytes: 4000, maxBytes: 8000 })
      const taskId = await begin(url)
      answer(await calls.nth(1), inputRequired({ q: elicitation('?'), r: elicitation('?') }))
      await until(url, taskId, 'input_required')
      const inputResponses = { 'r1.q': { action: 'accept', content: { text } } }
      const refused = await ask(url, 'tasks/update', { taskId, inputResponses })
      expect(refused.error.data).toEqual({ reason: 'too-many-tasks' })
      expect(keys(await getTask(url, taskId))).toEqual(['r1.q', 'r1.r'])
    }
  )
})

describe('creations', () => {
  it('beyond what one owner may have are refused with a reason, and nobody else is touched', async () => {
    const { url, calls, streams } = await serveTasks({
      maxPerOwner: 3,
      tools: { report: 'always' }
    })
    const as = (who: string) => ({ headers: { authorization: `Bearer ${who}` } })
    const other = await begin(url, 'report', as('b'))
    const many: Json[] = []
    for (let i = 0; i < 20; i++) many.push(await callTool(url, 'report', as('a')))
    expect(many.filter(({ result }) => result?.resultType === 'task')).toHaveLength(3)
    expect(many[3].error.data).toEqual({ reason: 'too-many-tasks' })
    expect(calls).toHaveLength(4)
    expect(streams.stats().tasks).toBe(4)
    expect(await getTask(url, other, as('b'))).toMatchObject({ result: { status: 'working' } })
    // One that might have become a task is answered without.
    const plain = callTool(url, 'plain', as('a'))
    answer(await calls.nth(5))
    expect((await plain).result).toEqual(RESULT)
  })

  it('sent twice under one Idempotency-Key are one task', async () => {
    const { url, calls } = await serveTasks({ tools: { report: 'always' } })
    const options = { headers: { 'idempotency-key': 'sent-once-and-again', prefer: 'rel=stream' } }
    const [first, second] = [
      await callTool(url, 'report', options),
      await callTool(url, 'report', options)
    ]
    expect(second).toEqual(first)
    expect(first.result.resultType).toBe('task')
    expect(calls).toHaveLength(1)
  })

  it('whose client has left before there was a task are given up', async () => {
    const { url, calls, streams } = await serveTasks({ after: 60_000 })
    const waiting = send(url, 'tools/call', { name: 'report' })
    const call = await calls.nth(1)
    call.emit({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info' } })
    ;(await waiting).destroy()
    await call.closed
    expect(streams.stats()).toMatchObject({ tasks: 0, bytes: 0 })
  })

  it('with a head that is wrong are for the endpoint to refuse', async () => {
    const { url, calls } = await serveTasks()
    const waiting = send(url, 'tools/call', { name: 'a' }, { headers: { 'mcp-name': 'b' } })
    const { req, res } = await calls.nth(1)
    expect(req.headers['mcp-name']).toBe('b')
    res.writeHead(400).end('{}')
    expect((await waiting).status).toBe(400)
  })
})
