// The official client 2.x over `resumableFetch({ tasks: true })`: tasks, of whatever server, without
// knowing of them; and `callTask`, which looks on.

import { describe, expect, it, jest } from '@jest/globals'
import { getEventListeners } from 'node:events'
import {
  callTask,
  type CallTaskOptions,
  resumableFetch,
  type FetchLike,
  type TaskState
} from '../../../lib/client/index.js'
import { tasks } from '../../../lib/features/tasks/index.js'
import { until } from '../../helpers/happenings.js'
import { connectV2, type ConnectV2Options } from '../../helpers/clients.js'
import { sdkV2Handler } from '../../helpers/endpoints/sdk-v2.js'
import { callTool, withEnvelope } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { answer, RESULT, serveTasks } from '../tasks/setup.js'

interface Sent {
  method: string
  headers: Headers
  body: any // eslint-disable-line @typescript-eslint/no-explicit-any
}

const QUICK = { minTimeout: 1, maxTimeout: 5 }

/** A stock client at an endpoint without tasks, behind the middleware. */
async function served(options: Partial<ConnectV2Options> = {}, fail?: (sent: Sent) => boolean) {
  const endpoint = sdkV2Handler({ legacy: 'reject' })
  const { url, streams } = await serve(endpoint, {
    tasks: tasks({ after: 20, pollInterval: 20, tools: { context: 'never' } })
  })
  const sent: Sent[] = []
  const watched: FetchLike = (input, init = {}) => {
    const body = init.method === 'POST' ? JSON.parse(String(init.body)) : undefined
    const one = { method: body?.method, headers: new Headers(init.headers), body }
    sent.push(one)
    return fail?.(one) === true ? Promise.reject(new TypeError('cut')) : fetch(input, init)
  }
  const fetched = resumableFetch({ fetch: watched, tasks: true, ...QUICK })
  const connected = await connectV2(url, { fetch: fetched, ...options })
  const of = (method: string): Sent[] => sent.filter(one => one.method === method)
  return { ...connected, endpoint, streams, of }
}

const text = (answer: string) => [{ type: 'text', text: answer }]

describe('client.callTool', () => {
  it('gets a plain result, of a call that was a task', async () => {
    const { client, of, streams, errors } = await served()
    // Long enough for two looks, on a machine that stands still for two seconds, too.
    const { content } = await client.callTool({ name: 'slow', arguments: { ms: 2500 } })
    expect(content).toEqual(text('slow but sure'))
    expect(errors).toEqual([])
    expect(streams.stats().tasks).toBe(1)
    const looks = of('tasks/get')
    expect(looks.length).toBeGreaterThan(1)
    for (const { headers, body } of looks) {
      expect(headers.get('mcp-method')).toBe('tasks/get')
      expect(headers.get('mcp-name')).toBe(body.params.taskId)
      expect(headers.has('idempotency-key')).toBe(false)
    }
  })

  it('declares the extension in calls of tools, and nowhere else', async () => {
    const { client, of } = await served()
    await client.callTool({ name: 'slow', arguments: { ms: 0 } })
    await client.listTools()
    const extensions = (method: string) =>
      of(method)[0]!.body.params._meta['io.modelcontextprotocol/clientCapabilities'].extensions
    expect(extensions('tools/call')).toEqual({ 'io.modelcontextprotocol/tasks': {} })
    expect(extensions('tools/list')).toBeUndefined()
  })

  it('is asked what the task asks for, by its own machinery', async () => {
    const onElicit = jest.fn((_params: { message: string }) => ({
      action: 'accept' as const,
      content: { answer: 'Ann' }
    }))
    const endpoint = sdkV2Handler({ legacy: 'reject' })
    const { url } = await serve(endpoint, {
      tasks: tasks({ pollInterval: 20, tools: { elicit: 'always' } })
    })
    const { client } = await connectV2(url, {
      fetch: resumableFetch({ tasks: true, ...QUICK }),
      onElicit
    })
    const { content } = await client.callTool({ name: 'elicit', arguments: { message: 'Who?' } })
    expect(content).toEqual(text('{"kind":"elicit","action":"accept","content":{"answer":"Ann"}}'))
    expect(onElicit).toHaveBeenCalledTimes(1)
    expect(onElicit).toHaveBeenCalledWith(expect.objectContaining({ message: 'Who?' }))
  })

  it('hears of progress, before the task and after', async () => {
    const { client, endpoint } = await served()
    const heard: unknown[] = []
    const done = client.callTool(
      { name: 'count', arguments: { key: 'k', n: 2, paced: true } },
      { onprogress: ({ message }) => heard.push(message) }
    )
    for (let i = 1; i <= 2; i++) {
      endpoint.log.release('k')
      while (!heard.some(message => String(message).startsWith(`${i}`)))
        await new Promise(resolve => setTimeout(resolve, 5))
    }
    endpoint.log.release('k')
    expect((await done).content).toEqual(text('counted to 2'))
  })

  it('hears of more progress each time, however it comes', async () => {
    const task = { resultType: 'task', taskId: 'T', status: 'working', pollIntervalMs: 1 }
    const looks = [
      { ...task, statusMessage: 'one' },
      { ...task, statusMessage: 'two' },
      { ...task, status: 'input_required', inputRequests: {} },
      { ...task, statusMessage: 'three' },
      { ...task, status: 'completed', result: {} }
    ]
    const progress = (progressToken: string, progress: number) =>
      `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress } })}\n\n`
    const server: FetchLike = (_input, init) => {
      const { id, method } = JSON.parse(String(init?.body))
      const answer = (result: object): string => JSON.stringify({ jsonrpc: '2.0', id, result })
      return Promise.resolve(
        method === 'tools/call'
          ? new Response(
              `${progress('p', 7)}data: {"progress":"none"}\n\n${progress('p', 40.5)}data: ${answer(task)}\n\n`,
              { headers: { 'content-type': 'text/event-stream' } }
            )
          : new Response(answer(looks.shift()!), {
              headers: { 'content-type': 'application/json' }
            })
      )
    }
    const fetched = resumableFetch({ fetch: server, tasks: true, ...QUICK })
    const call = async (more: object): Promise<Json[]> => {
      const { params } = callTool(1, 'any')
      const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', progressToken: 'p' }
      const response = await fetched('http://127.0.0.1/mcp', {
        method: 'POST',
        headers: { accept: 'application/json, text/event-stream' },
        body: JSON.stringify({ ...callTool(1, 'any'), params: { ...params, ...more, _meta } })
      })
      return (await response.text()).split('\n\n').flatMap(block => {
        const data = /^data: ?(.*)$/m.exec(block)?.[1]
        return data === undefined ? [] : JSON.parse(data)
      })
    }
    const heard = (messages: Json[]): unknown[] =>
      messages.flatMap(({ method, params }) => (method === undefined ? [] : params.progress))
    const first = await call({})
    expect(heard(first)).toEqual([7, 40.5, 41.5, 42.5])
    const { requestState } = first.at(-1)!.result
    const second = await call({ requestState })
    expect(heard(second)).toEqual([43.5])
    expect(second.at(-1)!.result).toEqual({})
  })

  it('cancels the task where it is aborted, and says so in no other way', async () => {
    const { client, of, endpoint } = await served()
    const abort = new AbortController()
    const done = client.callTool({ name: 'hang', arguments: {} }, { signal: abort.signal })
    while (of('tasks/get').length === 0) await new Promise(resolve => setTimeout(resolve, 5))
    abort.abort(new Error('enough'))
    await expect(done).rejects.toThrow('enough')
    await endpoint.log.ended.nth(1)
    expect(endpoint.log.calls[0]!.signal.aborted).toBe(true)
    expect(of('tasks/cancel')).toHaveLength(1)
    expect(of('notifications/cancelled')).toHaveLength(0)
  })

  it('does not notice that the wire breaks between looks', async () => {
    let cuts = 0
    const { client } = await served({}, ({ method }) => method === 'tasks/get' && ++cuts % 3 !== 0)
    const { content } = await client.callTool({ name: 'slow', arguments: { ms: 2500 } })
    expect(content).toEqual(text('slow but sure'))
    expect(cuts).toBeGreaterThan(2)
  })

  it('is told where the task cannot be followed any more', async () => {
    const { client } = await served({}, ({ method }) => method === 'tasks/get')
    await expect(client.callTool({ name: 'slow', arguments: { ms: 1000 } })).rejects.toMatchObject({
      message: expect.stringContaining('cut'),
      data: { reason: 'task-lost' }
    })
  })

  it('gets the error of a task that has failed', async () => {
    const { client, streams } = await served()
    const done = client.callTool({ name: 'hang', arguments: {} })
    done.catch(() => undefined)
    while (streams.stats().tasks === 0) await new Promise(resolve => setTimeout(resolve, 5))
    await streams.close({ drain: 0 })
    await expect(done).rejects.toThrow()
  })
})

describe('a call that takes longer than any timer of its client', () => {
  it('comes again in time, nine times at the most, and goes on with the same task', async () => {
    const { url, calls } = await serveTasks({ pollInterval: 20 })
    const now = performance.now.bind(performance)
    let passed = 0
    const spy = jest.spyOn(performance, 'now').mockImplementation(() => now() + passed)
    try {
      const came: unknown[] = []
      let looks = 0
      const below: FetchLike = (input, init = {}) => {
        const { method } = init.method === 'POST' ? JSON.parse(String(init.body)) : {}
        if (method === 'tasks/get') {
          // It is made to come again after the second look, and at last looks on.
          passed += 20_000
          if (came.length === 10 && ++looks === 5) answer(calls[0]!)
        }
        return fetch(input, init)
      }
      const resumed = resumableFetch({ fetch: below, tasks: true, ...QUICK })
      const above: FetchLike = (input, init = {}) => {
        const { method, params } = init.method === 'POST' ? JSON.parse(String(init.body)) : {}
        if (method === 'tools/call') came.push(params.requestState)
        return resumed(input, init)
      }
      const { client } = await connectV2(url, { fetch: above })
      const { content } = await client.callTool({ name: 'report', arguments: {} })
      expect(content).toEqual(RESULT.content)
      expect(came[0]).toBeUndefined()
      const states = came
        .slice(1)
        .map(state => JSON.parse(`${state}`.replace('express-mcp-streams:task:', '')))
      expect(states.map(({ rounds }) => rounds)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
      expect(new Set(states.map(({ taskId }) => taskId)).size).toBe(1)
      // What it comes again with never leaves the fetch.
      expect(calls).toHaveLength(1)
    } finally {
      spy.mockRestore()
    }
  })
})

it.each(['{"half', '', '5', '[]', '{}', '{"taskId":5}'])(
  'a `requestState` of ours that was changed on its way, to %j, is named by the error',
  async rest => {
    const sent = jest.fn<FetchLike>()
    const message = callTool(1, 'any')
    const requestState = `express-mcp-streams:task:${rest}`
    const body = JSON.stringify(
      withEnvelope({ ...message, params: { ...message.params, requestState } })
    )
    const headers = { accept: 'application/json, text/event-stream' }
    const fetched = resumableFetch({ fetch: sent, tasks: true })
    await expect(
      fetched('http://127.0.0.1:9/', { method: 'POST', headers, body })
    ).rejects.toMatchObject({
      name: 'TypeError',
      message: expect.stringMatching(/^resumableFetch: `requestState` names no task/)
    })
    expect(sent).not.toHaveBeenCalled()
  }
)

describe('callTask', () => {
  it('cancels a task whose creation comes together with the abort of its call', async () => {
    const abort = new AbortController()
    const methods: string[] = []
    const client = {
      getServerCapabilities: () => ({ tasks: { requests: { tools: { call: {} } } } }),
      request: ({ method }: { method: string }) => {
        methods.push(method)
        abort.abort(new Error('enough'))
        return Promise.resolve({ task: { taskId: 'T', status: 'working' } })
      }
    }
    const { signal } = abort
    await expect(callTask(client, { name: 'slow' }, { signal })).rejects.toThrow('enough')
    expect(methods).toEqual(['tools/call', 'tasks/cancel'])
  })

  it('makes each request with a signal of its own, and leaves nothing on that of its caller', async () => {
    const signals: AbortSignal[] = []
    const polls = 30
    const client = {
      getServerCapabilities: () => ({ tasks: { requests: { tools: { call: {} } } } }),
      request: (
        { method }: { method: string },
        _schema: unknown,
        { signal }: { signal: AbortSignal }
      ) => {
        // As version 1 of the SDK does it.
        signal.addEventListener('abort', () => undefined)
        signals.push(signal)
        const status = signals.length > polls ? 'completed' : 'working'
        const task = { taskId: 'T', status, pollInterval: 0 }
        return Promise.resolve(method === 'tools/call' ? { task } : task)
      }
    }
    const { signal } = new AbortController()
    await callTask(client, { name: 'slow' }, { signal })
    expect(signals.length).toBe(polls + 2)
    expect(new Set(signals).size).toBe(signals.length)
    expect(getEventListeners(signal, 'abort')).toEqual([])
    for (const each of signals) expect(getEventListeners(each, 'abort').length).toBeLessThan(3)
  })

  it('takes a status that tasks do not have for `working`', async () => {
    const statuses = ['queued', 'working', 'paused', 'completed']
    const client = {
      getServerCapabilities: () => ({ tasks: { requests: { tools: { call: {} } } } }),
      request: ({ method }: { method: string }) => {
        if (method === 'tasks/result') return Promise.resolve({ content: [] })
        const task = { taskId: 'T', status: statuses.shift(), pollInterval: 0 }
        return Promise.resolve(method === 'tools/call' ? { task } : task)
      }
    }
    const seen: TaskState['status'][] = []
    await callTask(client, { name: 'any' }, { onStatus: ({ status }) => seen.push(status) })
    expect(seen).toEqual(['working', 'working', 'working', 'completed'])
  })

  it('asks for progress if it is looked at, so that there is a `statusMessage`', async () => {
    const { client, endpoint, errors } = await served()
    const seen: (string | undefined)[] = []
    const done = callTask(
      client,
      { name: 'count', arguments: { key: 'k', n: 1, paced: true } },
      { onStatus: ({ statusMessage }) => seen.push(statusMessage) }
    )
    // What is reported before there is a task is no word of it.
    await until(() => seen.length > 0)
    endpoint.log.release('k')
    await until(() => seen.includes('1 (1/1)'))
    endpoint.log.release('k')
    expect((await done)['content']).toEqual(text('counted to 1'))
    expect(errors).toEqual([])
  })

  it('asks for no progress if nobody listens', async () => {
    const { client, of } = await served()
    await callTask(client, { name: 'slow', arguments: { ms: 0 } })
    expect(of('tools/call')[0]!.body.params._meta).not.toHaveProperty('progressToken')
  })

  it('tells what the task is each time that it is looked at, and gives the result', async () => {
    const { client, of } = await served()
    const seen: TaskState[] = []
    const { content } = await callTask(
      client,
      { name: 'slow', arguments: { ms: 2500 } },
      { onStatus: task => seen.push(task) }
    )
    expect(content).toEqual(text('slow but sure'))
    expect(seen.at(0)).toMatchObject({ status: 'working', pollIntervalMs: 20 })
    expect(seen.at(-1)).toMatchObject({ status: 'completed' })
    expect(seen.length).toBe(of('tasks/get').length + 1)
    // What it is known by to the fetch below goes no further.
    expect(of('tools/call')[0]!.body.params._meta).not.toHaveProperty('express-mcp-streams/task')
  })

  it('gives the result of a call that is none', async () => {
    const { client } = await served()
    const onStatus = jest.fn()
    const { content } = await callTask(client, { name: 'context' }, { onStatus })
    expect(content).toEqual(text('null'))
    expect(onStatus).not.toHaveBeenCalled()
  })

  it.each([[{ onStatus: 5 }], [{ ttl: -1 }], [{ ttl: 'long' }], [{ timeout: '1s' }]])(
    'refuses %j',
    async options => {
      const { client } = await served()
      await expect(callTask(client, { name: 'slow' }, options as CallTaskOptions)).rejects.toThrow(
        TypeError
      )
    }
  )
})
