// The endpoint works on the client's own request, whether its call becomes a task or not.

import { describe, expect, it } from '@jest/globals'
import { currentStream, type CurrentStream } from '../../../lib/index.js'
import { ended, get, notification, post, result } from '../../helpers/mcp.js'
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

const PROGRESS = notification('notifications/progress', { progressToken: 'p', progress: 1 })
const ANNOUNCED = { headers: { prefer: 'rel=stream' } }

describe('a call that becomes no task', () => {
  it('is answered by the endpoint, byte for byte', async () => {
    const { url } = await serveTasks(
      { after: 60_000 },
      {
        script: ({ res, message }) => {
          res.writeHead(201, 'Made', { 'Content-Type': 'application/json', 'X-Own': 'yes' })
          res.write('{ "jsonrpc" : "2.0",\n')
          res.end(`  "id":${message.id}, "result": {} }\n`)
        }
      }
    )
    const response = await ended(send(url, 'tools/call', { name: 'report' }))
    expect([response.status, response.headers['x-own']]).toEqual([201, 'yes'])
    expect(response.text).toBe('{ "jsonrpc" : "2.0",\n  "id":1, "result": {} }\n')
  })

  it('is the endpoint’s own event stream, to its end', async () => {
    const { url, calls, streams } = await serveTasks({ after: 60_000 })
    const waiting = send(url, 'tools/call', { name: 'report', _meta: { progressToken: 'p' } })
    const call = await calls.nth(1)
    call.emit(PROGRESS)
    const response = await waiting
    // Nobody could come back to it.
    expect(response.headers).not.toHaveProperty('link')
    call.result(RESULT)
    await response.ended
    expect(response.messages()).toEqual([PROGRESS, result(1, RESULT)])
    expect(streams.stats()).toMatchObject({ tasks: 0, bytes: 0 })
  })

  it('is over for the endpoint when its client leaves before there is a task', async () => {
    const { url, calls, streams } = await serveTasks({ after: 60_000 })
    const waiting = send(url, 'tools/call', { name: 'report' })
    waiting.catch(() => undefined)
    const call = await calls.nth(1)
    call.req.socket.destroy()
    await call.closed
    expect(streams.stats()).toMatchObject({ tasks: 0, bytes: 0 })
  })
})

describe('a call that becomes a task', () => {
  it('has made one request, and its response closes at the end of the task', async () => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url, 'report', { id: 'own' })
    const call = await calls.nth(1)
    expect(call.message.id).toBe('own')
    expect(await getTask(url, taskId)).toMatchObject({ result: { status: 'working' } })
    expect([call.isClosed, call.res.writableEnded, call.res.destroyed]).toEqual([
      false,
      false,
      false
    ])
    call.result(RESULT)
    await call.closed
    await until(url, taskId, 'completed')
    expect(calls).toHaveLength(1)
  })

  it('is the answer to what a client comes back for whose wire was cut before', async () => {
    const { url, calls } = await serveTasks({ after: 200 })
    const params = { name: 'report', _meta: { progressToken: 'p' } }
    const waiting = send(url, 'tools/call', params, ANNOUNCED)
    const call = await calls.nth(1)
    call.emit(PROGRESS)
    const first = await waiting
    await first.nextMessage()
    const cursor = first.blocks.findLast(({ id }) => id !== undefined)!.id!
    first.destroy()
    const again = await get(url, {
      'mcp-protocol-version': '2026-07-28',
      accept: 'text/event-stream',
      'last-event-id': cursor,
      ...ANNOUNCED.headers
    })
    const { result: task } = await answerOf(again)
    expect(task).toMatchObject({ resultType: 'task' })
    call.result(RESULT)
    expect(await until(url, task.taskId, 'completed')).toMatchObject({ result: RESULT })
  })

  it('is the answer to its repetition under a key, though its client has left before', async () => {
    const { url, calls } = await serveTasks({ after: 100 })
    const options = { headers: { 'idempotency-key': 'sent-once-and-again', prefer: 'rel=stream' } }
    const waiting = send(url, 'tools/call', { name: 'report', arguments: {} }, options)
    waiting.catch(() => undefined)
    const call = await calls.nth(1)
    call.req.socket.destroy()
    const taskId = await begin(url, 'report', options)
    answer(call)
    await until(url, taskId, 'completed')
    expect(calls).toHaveLength(1)
  })

  it('is not cancelled with the request that it has begun with', async () => {
    const { url, calls } = await serveTasks({}, {}, { owner: () => 'one' })
    const taskId = await begin(url, 'report', { id: 5 })
    const first = await calls.nth(1)
    const cancelled = notification('notifications/cancelled', { requestId: 5 })
    const headers = {
      'mcp-protocol-version': '2026-07-28',
      accept: 'application/json, text/event-stream'
    }
    const told = post(url, cancelled, headers)
    ;(await calls.nth(2)).res.writeHead(202).end()
    await ended(told)
    expect(first.isClosed).toBe(false)
    answer(first)
    await until(url, taskId, 'completed')
  })

  it('tells its handler by the signal that it had before when nobody wants it', async () => {
    let stream: CurrentStream | undefined
    let signal: AbortSignal | undefined
    const { url } = await serveTasks(
      { after: 60 },
      {
        script: call => {
          stream = currentStream()
          signal = stream?.signal
          call.emit(PROGRESS)
        }
      }
    )
    const { taskId } = (await callTool(url)).result
    expect([stream?.state, signal?.aborted, stream?.disconnect()]).toEqual([
      'live',
      false,
      undefined
    ])
    await ask(url, 'tasks/cancel', { taskId })
    expect([stream?.state, signal?.aborted]).toEqual(['cancelled', true])
  })

  it('has one answer, whatever the endpoint says behind it', async () => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url)
    const call = await calls.nth(1)
    call.emit(result(1, RESULT))
    call.emit(result(1, { content: [] }))
    expect(await until(url, taskId, 'completed')).toMatchObject({ result: RESULT })
    // It does not end its response, and nobody waits for that.
    await call.closed
  })

  it('has the answer under its own id, and another one only where there is none', async () => {
    const { url, calls } = await serveTasks()
    const [own, foreign] = [await begin(url), await begin(url)]
    for (const n of [1, 2]) (await calls.nth(n)).emit(result('another', { content: [] }))
    calls[0]!.emit(result('1', RESULT))
    calls[0]!.res.end()
    calls[1]!.res.end()
    expect(await until(url, own, 'completed')).toMatchObject({ result: RESULT })
    expect(await until(url, foreign, 'completed')).toMatchObject({ result: { content: [] } })
  })

  it('fails where the endpoint breaks off', async () => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url)
    const call = await calls.nth(1)
    call.emit(PROGRESS)
    call.res.destroy()
    expect((await until(url, taskId, 'failed')).error.data).toEqual({ reason: 'no-response' })
  })
})
