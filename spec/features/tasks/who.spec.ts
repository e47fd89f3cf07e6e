// Which requests are about tasks of ours at all: declared by whom, offered by whom, allowed to whom.

import { describe, expect, it, jest } from '@jest/globals'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { serve } from '../../helpers/serve.js'
import {
  answer,
  ask,
  begin,
  callTool,
  EXTENSION,
  getTask,
  RESULT,
  send,
  serveTasks
} from './setup.js'

const discover = (url: string) => ask(url, 'server/discover')

describe('server/discover', () => {
  it('declares the extension beside what the endpoint declares', async () => {
    const capabilities = { tools: { listChanged: true }, extensions: { other: {} } }
    const { url } = await serveTasks({}, { capabilities })
    expect((await discover(url)).result.capabilities).toEqual({
      tools: { listChanged: true },
      extensions: { other: {}, [EXTENSION]: {} }
    })
  })

  it('leaves lists of tools as they are: the extension has no word in them', async () => {
    const { url, calls } = await serveTasks({ tools: { report: 'always' } })
    const listed = ask(url, 'tools/list')
    const tools = [{ name: 'report', execution: { taskSupport: 'forbidden' } }]
    answer(await calls.nth(1), { tools })
    expect((await listed).result).toEqual({ tools })
  })

  it('declares nothing without the option', async () => {
    const endpoint = rawEndpoint(call => answer(call, { capabilities: { tools: {} } }))
    const { url } = await serve(endpoint)
    expect((await discover(url)).result.capabilities).toEqual({ tools: {} })
  })
})

describe.each([
  ['the extension', { extensions: { [EXTENSION]: {} } }],
  ['the tasks of 2025-11-25', { tasks: { cancel: {} } }]
])('an endpoint with %s of its own', (_, own) => {
  it('is left alone, whether it has been asked before or not', async () => {
    const script = (call: Parameters<typeof answer>[0]): void =>
      answer(call, { resultType: 'task', taskId: 'own', by: call.message.method })
    for (const isAsked of [true, false]) {
      const { url, streams } = await serveTasks(
        { tools: { report: 'required' } },
        { capabilities: { tools: {}, ...own }, script }
      )
      if (isAsked) expect((await discover(url)).result.capabilities).toEqual({ tools: {}, ...own })
      expect((await callTool(url)).result).toMatchObject({ taskId: 'own' })
      for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel', 'tasks/result'])
        expect((await ask(url, method, { taskId: 'own' })).result.by).toBe(method)
      expect(streams.stats().tasks).toBe(0)
    }
  })
})

describe('a client', () => {
  it('that does not declare the extension in a request gets no task for it', async () => {
    const { url, calls } = await serveTasks()
    await begin(url)
    const waiting = callTool(url, 'report', { capabilities: {} })
    answer(await calls.nth(2))
    expect((await waiting).result).toEqual(RESULT)
  })

  it('gets none for a legacy hint, nor at an older revision for declaring it', async () => {
    const { url, calls } = await serveTasks({ tools: { quick: 'never' } })
    const hinted = ask(url, 'tools/call', { name: 'quick', task: { ttl: 1 } })
    answer(await calls.nth(1))
    expect((await hinted).result).toEqual(RESULT)
    const headers = { 'mcp-protocol-version': '2025-11-25' }
    const older = callTool(url, 'report', { headers })
    answer(await calls.nth(2))
    expect((await older).result).toEqual(RESULT)
  })

  it('finds its own tasks only: those of others are as unknown as any', async () => {
    const { url } = await serveTasks()
    const as = (who: string) => ({ headers: { authorization: `Bearer ${who}` } })
    const taskId = await begin(url, 'report', as('a'))
    expect(await getTask(url, taskId, as('a'))).toMatchObject({ result: { taskId } })
    const unknown = await getTask(url, 'made-up', as('b'))
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel'])
      expect(await ask(url, method, { taskId, inputResponses: {} }, as('b'))).toEqual(unknown)
    expect(unknown.error).toMatchObject({ code: -32602, data: { reason: 'task-unknown' } })
    expect(await getTask(url, taskId, as('a'))).toMatchObject({ result: { status: 'working' } })
  })

  it('finds a task only where it has called', async () => {
    const { url } = await serveTasks()
    const taskId = await begin(url)
    expect((await getTask(`${url}/other`, taskId)).error.code).toBe(-32602)
  })

  it('is asked for by the endpoint once in seconds, however often it looks', async () => {
    const { url, discoveries } = await serveTasks()
    const taskId = await begin(url)
    const before = discoveries()
    for (let i = 0; i < 20; i++) await getTask(url, taskId)
    expect(discoveries()).toBe(before)
    const time = performance.now()
    jest.spyOn(performance, 'now').mockImplementation(() => time + 6000)
    await Promise.all(Array.from({ length: 10 }, () => getTask(url, taskId)))
    expect(discoveries()).toBe(before + 1)
    await getTask(url, taskId, { headers: { authorization: 'Bearer other' } })
    expect(discoveries()).toBe(before + 2)
  })

  it('that is shut out hears it from the endpoint, and of no task', async () => {
    let isOpen = true
    const { url } = await serveTasks(
      {},
      { inFront: [(_req, res, next) => void (isOpen ? next() : res.status(401).send('out'))] }
    )
    const taskId = await begin(url)
    isOpen = false
    const headers = { authorization: 'Bearer late' }
    const response = await send(url, 'tasks/get', { taskId }, { headers })
    await response.ended
    expect([response.status, response.text]).toEqual([401, 'out'])
  })

  it('on a foreign page is refused before any look-up', async () => {
    const { url } = await serveTasks()
    const taskId = await begin(url)
    const headers = { origin: 'https://evil.example' }
    const response = await send(url, 'tasks/get', { taskId }, { headers })
    await response.ended
    expect(response.status).toBe(403)
  })
})
