// What a server says of a task is held whole: no more of it than `maxEventSize`. What is no answer in
// it is none to the caller.

import { describe, expect, it } from '@jest/globals'
import { resumableFetch } from '../../../lib/client/index.js'
import { callTool, result, withEnvelope } from '../../helpers/mcp.js'
import { POST } from './scripted.js'

const MAX = 10_000
const INIT = { ...POST, body: JSON.stringify(withEnvelope(callTool(1, 'any'))) }
const TASK = { resultType: 'task', taskId: 'T', status: 'working', pollIntervalMs: 20 }
const LARGE = 'x'.repeat(MAX)

/** Counts what is read of it, and never ends. */
function endless(start: string, type: string) {
  const read = { chunks: 0, isCancelled: false }
  const chunk = new TextEncoder().encode('x'.repeat(1000))
  const body = new ReadableStream(
    {
      start: controller => controller.enqueue(new TextEncoder().encode(start)),
      pull: controller => {
        read.chunks++
        controller.enqueue(chunk)
      },
      cancel: () => {
        read.isCancelled = true
      }
    },
    { highWaterMark: 0 }
  )
  return { read, response: new Response(body, { headers: { 'Content-Type': type } }) }
}

const json = (value: unknown) =>
  new Response(JSON.stringify(value), { headers: { 'Content-Type': 'application/json' } })

const fetchWith = (...responses: Response[]) =>
  resumableFetch({
    fetch: () => Promise.resolve(responses.shift()!),
    tasks: true,
    maxEventSize: MAX,
    minTimeout: 1,
    maxTimeout: 5
  })

async function errorIn(response: Response): Promise<unknown> {
  const [, data = ''] = /^data: (.*)$/m.exec(await response.text()) ?? []
  return JSON.parse(data).error
}

/** What a call comes to whose task comes to this. */
async function answerTo(end: unknown): Promise<unknown> {
  const fetch = fetchWith(json(result(1, TASK)), json(end))
  const [, data = ''] = /^data: (.*)$/m.exec(await (await fetch('http://a/mcp', INIT)).text()) ?? []
  return JSON.parse(data)
}

describe('a reply about a task', () => {
  it.each([
    ['JSON', '{"jsonrpc":"2.0","id":"1:1","result":{"x":"', 'application/json'],
    ['an event stream', 'data: {"jsonrpc":"2.0","id":"1:1","result":{"x":"', 'text/event-stream']
  ])('fails the call where it is larger than the limit: %s', async (_name, start, type) => {
    const { read, response } = endless(start, type)
    const fetch = fetchWith(json(result(1, TASK)), response)
    expect(await errorIn(await fetch('http://a/mcp', INIT))).toMatchObject({
      message: expect.stringContaining('`maxEventSize`'),
      data: { reason: 'task-lost' }
    })
    expect(read.chunks).toBeLessThanOrEqual(MAX / 1000)
    expect(read.isCancelled).toBe(true)
  })

  it('is read up to the limit', async () => {
    const done = { ...TASK, status: 'completed', result: { content: [], of: 'y'.repeat(9000) } }
    const fetch = fetchWith(json(result(1, TASK)), json(result('1:1', done)))
    const answer = await (await fetch('http://a/mcp', INIT)).text()
    expect(answer).toContain(JSON.stringify(done.result))
  })
})

describe('the answer to a call that may be a task', () => {
  it('passes where it is too large to be looked at', async () => {
    const large = result(1, { content: [], of: LARGE })
    const answer = await fetchWith(json(large))('http://a/mcp', INIT)
    expect(await answer.json()).toEqual(large)
  })

  it('fails the call where one event of it is too large', async () => {
    const { read, response } = endless('data: ', 'text/event-stream')
    const answer = await fetchWith(response)('http://a/mcp', INIT)
    expect(await errorIn(answer)).toMatchObject({
      message: expect.stringContaining('`maxEventSize`')
    })
    expect(read.chunks).toBeLessThanOrEqual(MAX / 1000 + 1)
    expect(read.isCancelled).toBe(true)
  })
})

describe('a reply that does not belong to the task of the call', () => {
  const done = { ...TASK, status: 'completed', result: { content: [] } }

  it.each([
    ['of another request', result('1:2', done), 'without a JSON-RPC response'],
    ['of another task', result('1:1', { ...done, taskId: 'U' }), 'no such task'],
    ['without a status', result('1:1', { taskId: 'T' }), 'no such task']
  ])('fails the call: %s', async (_name, answer, why) => {
    expect(await answerTo(answer)).toMatchObject({
      error: { message: expect.stringContaining(why), data: { reason: 'task-lost' } }
    })
  })

  it('is accepted as an error where the server could not say which request it answers', async () => {
    const error = { code: -32_700, message: 'Parse error' }
    expect(await answerTo({ jsonrpc: '2.0', id: null, error })).toMatchObject({ error })
  })

  it.each(['application/json', 'text/event-stream'])(
    'makes no task of one without a name: %s',
    async type => {
      const json = JSON.stringify(result(1, { resultType: 'task' }))
      const text = type === 'text/event-stream' ? `data: ${json}\n\n` : json
      const response = new Response(text, { headers: { 'Content-Type': type } })
      expect(await errorIn(await fetchWith(response)('http://a/mcp', INIT))).toMatchObject({
        message: expect.stringContaining('no such task')
      })
    }
  )
})

// The official client drops what is no response of JSON-RPC, and waits on.
describe('the outcome of a task', () => {
  it.each([
    [{ error: null }, 'Task failed'],
    [{ error: 'x' }, 'Task failed'],
    [{ error: { message: 'x' } }, 'Task failed'],
    [{ error: { code: 1.5, message: 'x' } }, 'Task failed'],
    [{ error: { code: 1 }, statusMessage: 'Why' }, 'Why'],
    [{ statusMessage: { no: 'text' } }, 'Task failed']
  ])(
    'is an error of code -31000 where the error of the task is invalid: %j',
    async (members, message) => {
      expect(await answerTo(result('1:1', { ...TASK, status: 'failed', ...members }))).toEqual({
        jsonrpc: '2.0',
        id: 1,
        error: { code: -31000, message, data: { reason: 'task-failed' } }
      })
    }
  )

  it.each([null, [], 'x'])(
    'is an empty result where the result of the task is invalid: %j',
    async value => {
      expect(
        await answerTo(result('1:1', { ...TASK, status: 'completed', result: value }))
      ).toEqual({
        jsonrpc: '2.0',
        id: 1,
        result: {}
      })
    }
  )

  it('is an error of code -31000 where the server refuses tasks/get with an invalid error', async () => {
    const refused = { jsonrpc: '2.0', id: '1:1', error: { message: 'no code' } }
    expect(await answerTo(refused)).toEqual({
      jsonrpc: '2.0',
      id: 1,
      error: {
        code: -31000,
        message: 'The task cannot be followed: {"message":"no code"}',
        data: { reason: 'task-lost' }
      }
    })
  })

  it('is the error of the task as it was written', async () => {
    const error = { code: -32000, message: 'Out of paper', data: { tray: 2 } }
    const refused = { jsonrpc: '2.0', id: '1:1', error }
    const failed = result('1:1', { ...TASK, status: 'failed', error })
    for (const end of [refused, failed])
      expect(await answerTo(end)).toEqual({ jsonrpc: '2.0', id: 1, error })
  })
})
