// Results that nobody has fetched when their instance has gone, by whatever their client holds of
// them: any other instance has them, for their client only.

import { describe, expect, it } from '@jest/globals'
import { currentStream, type McpStreamsOptions } from '../../../lib/index.js'
import { tasks } from '../../../lib/features/tasks/index.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import {
  callTool,
  get,
  headersFor,
  initializeSession,
  post,
  request,
  result
} from '../../helpers/mcp.js'
import { until } from '../../helpers/happenings.js'
import { openStream, type Json, type OpenStream } from '../../helpers/open-stream.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { open, requestText } from '../hardening/wire.js'
import { answer, answerOf, ask, begin, getTask, RESULT } from '../tasks/setup.js'
import { tokenOf } from '../resume-tokens/setup.js'
import { anywhere, gist, lastId, note, VERSION, type Anywhere } from './setup.js'

const GONE = { data: { reason: 'owner-gone' } }
const version = headersFor({ version: VERSION })

/** It leaves, with nothing to wait for. */
const leave = ({ members }: Pick<Anywhere, 'members'>): Promise<void> => members[0]!.streams.close()

const json = ({ res, message }: RawCall, value: object = RESULT): void =>
  void res
    .writeHead(200, { 'Content-Type': 'application/json' })
    .end(JSON.stringify(result(message.id, value)))

describe('a resume token of an instance that has gone', () => {
  const report = (id: number, resumeToken: string | null, args = {}): Json => ({
    ...request(id, 'tools/call', { name: 'report', arguments: args, _meta: { resumeToken } })
  })
  const options = { resumeTokens: { after: 20 } }
  const send = async (url: string, message: Json, headers: object = {}): Promise<Json> => {
    const response = await post(url, message, { ...version, ...headers })
    await response.ended
    return JSON.parse(response.text)
  }

  /** A token whose call ended with nobody there. */
  async function left(options: McpStreamsOptions, headers: object = {}) {
    const all = await anywhere(options)
    const { result } = await send(all.urls[0]!, report(1, null), headers)
    json(await all.endpoints[0]!.calls.nth(1))
    await until(() => [...all.hub.keys.keys()].some(key => key.startsWith('r:')))
    return { ...all, token: tokenOf({ result }) }
  }

  it('gives its result, any number of times', async () => {
    const all = await left(options)
    await leave(all)
    for (const [id, i] of [
      [2, 1],
      [3, 2]
    ] as const)
      expect(await send(all.urls[i]!, report(id, all.token))).toEqual(result(id, RESULT))
    expect(all.endpoints.map(({ calls }) => calls.length)).toEqual([1, 0, 0])
  })

  it('gives nothing to another request or another owner', async () => {
    const auth = { authorization: 'Bearer one' }
    const all = await left(options, auth)
    await leave(all)
    const other = await send(all.urls[1]!, report(2, all.token, { other: 1 }), auth)
    expect(other.error.data.reason).toBe('parameters-changed')
    const stranger = { authorization: 'Bearer two' }
    const unknown = `${all.token.slice(0, 5)}aaaaaaaaaaaaaaaa`
    const refused = await send(all.urls[1]!, report(2, all.token), stranger)
    expect(refused.error).toMatchObject(GONE)
    expect(refused).toEqual(await send(all.urls[1]!, report(2, unknown), stranger))
  })

  it('of a call that does not end in time gives an error that says so', async () => {
    const all = await anywhere(options)
    const token = tokenOf(await send(all.urls[0]!, report(1, null)))
    await all.members[0]!.streams.close({ drain: 0 })
    const { error } = await send(all.urls[1]!, report(2, token))
    expect(error.data.reason).toBe('closing')
  })

  it('gives an error where a part of the result had not been fetched', async () => {
    const page = (n: number) => ({ content: [{ type: 'text', text: `page ${n}` }] })
    const endpoint = rawEndpoint(
      call => {
        for (const n of [1, 2]) currentStream()!.partial(page(n))
        json(call, page(3))
      },
      { stateless: true }
    )
    const all = await cluster(() => endpoint, options, {}, 2)
    const [home, away] = all.members.map(({ url }) => url) as [string, string]
    const first = await send(home, report(1, null))
    expect(first.result).toMatchObject(page(1))
    await leave(all)
    const { error } = await send(away, report(2, tokenOf(first)))
    expect(error).toMatchObject(GONE)
  })
})

describe('a requestState (2026-07-28) of another instance', () => {
  it('is accepted while its call runs, and once its instance has gone', async () => {
    const all = await anywhere({ disconnectAfter: 30 })
    const call = (id: number, requestState?: string) => ask2(all.urls[id % 3]!, id, requestState)
    const ask2 = (url: string, id: number, requestState?: string): Promise<Json> =>
      ask(
        url,
        'tools/call',
        { name: 'slow', arguments: {}, ...(requestState && { requestState }) },
        { id, capabilities: {} }
      )
    const first = await call(0)
    expect(first.result.resultType).toBe('input_required')
    const second = await call(1, first.result.requestState)
    expect(second.result.resultType).toBe('input_required')
    answer(await all.endpoints[0]!.calls.nth(1))
    await until(() => [...all.hub.keys.keys()].some(key => key.startsWith('r:')))
    await leave(all)
    expect(await call(2, second.result.requestState)).toEqual(result(2, RESULT))
    expect(all.endpoints.map(({ calls }) => calls.length)).toEqual([1, 0, 0])
  })
})

describe('a stream of an instance that has gone', () => {
  async function ended(
    options: McpStreamsOptions = {}
  ): Promise<Anywhere & { streamId: string; first: OpenStream }> {
    const all = await anywhere(options)
    const { first, call, link } = await all.call()
    call.emit(note('one'))
    await first.nextMessage()
    first.destroy()
    await until(() => all.members[0]!.streams.stats().connections === 0)
    call.emit(note('two'))
    call.error(-32_000, 'no')
    await leave(all)
    return { ...all, streamId: new URL(link).searchParams.get('stream')!, first }
  }
  const send = (url: string, method: string, params: object, headers: object = {}) =>
    post(url, request(7, method, params), { ...version, ...headers })

  it('is polled, with what its client has not received', async () => {
    const { urls, streamId, first } = await ended()
    const poll = async (params: object) =>
      (await answerOf(await send(urls[1]!, 'stream/poll', { streamId, ...params }))).result
    const unread = { streamId, status: 'completed', pendingMessages: true, hasRequest: false }
    expect(await poll({})).toEqual({ ...unread, hasError: true })
    expect(await poll({ cursor: lastId(first) })).toEqual({ ...unread, hasError: true })
    expect(await poll({ cursor: 3 })).toEqual({
      ...unread,
      pendingMessages: false,
      hasError: false
    })
    const { error } = await answerOf(await send(urls[1]!, 'stream/poll', { streamId, cursor: 9 }))
    expect(error.data.reason).toBe('invalid-cursor')
  })

  it('is resumed by stream/resume, from a cursor or from where its client was', async () => {
    const { urls, streamId, first } = await ended()
    const resume = async (i: number, params: object) => {
      const response = await send(urls[i]!, 'stream/resume', { streamId, ...params })
      await response.ended
      return response.messages()
    }
    const end = [
      { method: 'notifications/stream/end', params: { streamId } },
      { id: 7, result: { streamId, status: 'completed' } }
    ]
    const two = { params: { data: 'two' } }
    const failed = { id: 1, error: { message: 'no' } }
    expect(await resume(1, { cursor: lastId(first) })).toMatchObject([two, failed, ...end])
    expect(await resume(2, {})).toMatchObject([note('one'), two, failed, ...end])
    expect(await resume(2, { cursor: 3 })).toMatchObject(end)
  })

  it('is resumed by its URL from its own cursor, and refuses any other cursor', async () => {
    const all = await ended()
    const [, url] = all.urls as [string, string]
    const resume = async (lastEventId: string, query = all.streamId) => {
      const response = await get(`${url}?stream=${query}`, headersFor({ lastEventId }))
      await response.ended
      return response
    }
    const own = lastId(all.first)
    expect(gist(await resume(own))).toEqual(['two', 1])
    const ask = (method: string, headers: Record<string, string> = {}) =>
      openStream(`${url}?stream=${all.streamId}`, { method, headers })
    const head = await ask('HEAD')
    expect([head.status, head.headers['content-type']]).toEqual([200, 'text/event-stream'])
    expect((await ask('DELETE', { authorization: 'Bearer two' })).status).toBe(410)
    const never = own.replace(/\.\d+/, '.9')
    const anothers = own.replace(all.streamId, `${all.streamId.slice(0, -2)}zz`)
    for (const id of [never, anothers, 'no id']) {
      const { status, text } = await resume(id)
      expect([id, status, text]).toEqual([id, 400, expect.stringContaining('invalid-event-id')])
    }
    const atEndpoint = await get(url, headersFor({ version: VERSION, lastEventId: never }))
    await atEndpoint.ended
    expect(atEndpoint.messages()).toMatchObject([{ id: 1, error: GONE }])
    expect((await ask('DELETE')).status).toBe(204)
    expect([...all.hub.keys.keys()].filter(key => key.startsWith('r:'))).toEqual([])
    expect((await resume(own)).messages()).toMatchObject([{ id: 1, error: GONE }])
  })

  it('answers 410 to a cursor whose events were not kept', async () => {
    const all = await anywhere({ maxStreamBytes: 4096 })
    const { first, call, link } = await all.call()
    const streamId = new URL(link).searchParams.get('stream')!
    const { streams } = all.members[0]!
    for (let n = 0; n < 9; n++) {
      call.emit(note('delivered'.padEnd(1000)))
      await first.nextMessage()
    }
    first.destroy()
    await until(() => streams.stats().connections === 0)
    call.emit(note('two'))
    call.result()
    await leave(all)
    const { error } = await answerOf(
      await send(all.urls[1]!, 'stream/resume', { streamId, cursor: 1 })
    )
    expect(error.data.reason).toBe('events-evicted')
    const byUrl = await get(`${all.urls[1]!}?stream=${streamId}`)
    await byUrl.ended
    expect([byUrl.status, byUrl.text]).toEqual([410, expect.stringContaining('events-evicted')])
  })

  it('gives an error for its request where some events were not kept', async () => {
    const all = await anywhere({ maxStreamBytes: 4096 })
    const opened = post(all.urls[0]!, callTool('an id of text', 'any'), version)
    const call = await all.endpoints[0]!.calls.nth(1)
    call.open()
    const first = await opened
    for (let n = 0; n < 9; n++) {
      call.emit(note('delivered'.padEnd(1000)))
      await first.nextMessage()
    }
    const lastEventId = first.blocks.find(({ id }) => /\.1$/.test(id ?? ''))!.id!
    first.destroy()
    await until(() => all.members[0]!.streams.stats().connections === 0)
    call.result()
    await leave(all)
    const headers = headersFor({ version: VERSION, lastEventId })
    const again = await get(all.urls[1]!, headers)
    await again.ended
    expect(again.messages()).toMatchObject([{ id: 'an id of text', error: GONE }])
  })

  it('is kept as long as at its own instance', async () => {
    const { hub } = await ended({ window: 1, resumeInterval: { max: 60 } })
    const [, kept] = [...hub.keys].find(([key]) => key.startsWith('r:'))!
    expect(kept.until - Date.now()).toBeGreaterThan(30_000)
  })

  it('is unknown to other owners', async () => {
    const { urls, streamId } = await ended()
    const auth = { authorization: 'Bearer two' }
    const unknown = `${streamId.slice(0, 5)}aaaaaaaaaaaaaaaa`
    for (const method of ['stream/poll', 'stream/resume']) {
      const theirs = await send(urls[1]!, method, { streamId }, auth)
      const never = await send(urls[1]!, method, { streamId: unknown }, auth)
      await Promise.all([theirs.ended, never.ended])
      expect([theirs.status, theirs.text]).toEqual([never.status, never.text])
      expect(JSON.parse(theirs.text).error).toMatchObject(GONE)
    }
  })
})

describe('a call under an Idempotency-Key, whose instance has gone', () => {
  const keyed = {
    ...headersFor({ version: VERSION, prefer: 'rel=stream' }),
    'idempotency-key': 'a-key-that-nobody-guesses'
  }
  const CALL = callTool(1, 'any')

  /** Its client left before there was an answer. */
  async function sendAndLeave({ urls, endpoints }: Anywhere): Promise<RawCall> {
    const wire = open(Number(new URL(urls[0]!).port))
    wire.socket.write(requestText({ method: 'POST', path: '/mcp', headers: keyed }, CALL))
    const call = await endpoints[0]!.calls.nth(1)
    const gone = new Promise(resolve => call.req.socket.once('close', () => setImmediate(resolve)))
    await wire.leave()
    await gone
    return call
  }

  it('is answered as before, and does not run again', async () => {
    const all = await anywhere()
    json(await sendAndLeave(all))
    await leave(all)
    const again = await post(all.urls[1]!, CALL, keyed)
    await again.ended
    expect(JSON.parse(again.text)).toEqual(result(1, RESULT))
    const reused = await post(all.urls[2]!, callTool(1, 'another'), keyed)
    expect(reused.status).toBe(409)
    expect(all.endpoints.map(({ calls }) => calls.length)).toEqual([1, 0, 0])
  })

  it('is refused to a page of another origin, whether or not something was kept', async () => {
    const foreign = { ...keyed, origin: 'https://evil.example' }
    for (const isKept of [true, false]) {
      const all = await anywhere()
      const call = await sendAndLeave(all)
      if (isKept) json(call)
      await all.members[0]!.streams.close({ drain: 0 })
      const refused = await post(all.urls[1]!, CALL, foreign)
      expect(refused.status).toBe(403)
      expect(await refused.json()).toMatchObject({ error: { data: { reason: 'foreign-origin' } } })
      expect(all.endpoints.map(({ calls }) => calls.length)).toEqual([1, 0, 0])
      call.res.destroy()
    }
  })

  it('is answered by its stream, where it has one', async () => {
    const all = await anywhere()
    const call = await sendAndLeave(all)
    call.emit(note('one'))
    call.result()
    await leave(all)
    const again = await post(all.urls[1]!, CALL, keyed)
    await again.ended
    expect(gist(again)).toEqual(['one', 1])
    // As at home, whatever else it names.
    const lastEventId = lastId(again)
    const last = await post(all.urls[2]!, CALL, { ...keyed, 'last-event-id': lastEventId })
    await last.ended
    expect(gist(last)).toEqual(['one', 1])
    expect(all.endpoints.map(({ calls }) => calls.length)).toEqual([1, 0, 0])
  })

  it('gets an error where some of its stream was not kept', async () => {
    const all = await anywhere({ maxStreamBytes: 4096 })
    const opened = post(all.urls[0]!, CALL, keyed)
    const call = await all.endpoints[0]!.calls.nth(1)
    call.open()
    const first = await opened
    for (let n = 0; n < 9; n++) {
      call.emit(note('delivered'.padEnd(1000)))
      await first.nextMessage()
    }
    first.destroy()
    await until(() => all.members[0]!.streams.stats().connections === 0)
    call.result()
    await leave(all)
    const again = await post(all.urls[1]!, CALL, keyed)
    await again.ended
    expect(again.messages()).toMatchObject([{ id: 1, error: GONE }])
  })

  it('gets an error where nothing was kept', async () => {
    const all = await anywhere()
    const call = await sendAndLeave(all)
    await all.members[0]!.streams.close({ drain: 0 })
    const again = await post(all.urls[1]!, CALL, keyed)
    await again.ended
    expect(JSON.parse(again.text)).toMatchObject({ id: 1, error: GONE })
    expect(all.endpoints.map(({ calls }) => calls.length)).toEqual([1, 0, 0])
    call.res.destroy()
  })
})

describe('a task of an instance that leaves', () => {
  async function modern() {
    const running: RawCall[] = []
    const endpoints = [0, 1].map(() =>
      rawEndpoint(call => {
        if (call.message?.method === 'server/discover')
          answer(call, { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } })
        else running.push(call)
      })
    )
    const all = await cluster(i => endpoints[i]!, { tasks: tasks({ after: 0 }) }, {}, 2)
    const [home, away] = all.members.map(({ url }) => url) as [string, string]
    return { ...all, running, home, away }
  }

  it('goes on as long as its call does, and is found when it has gone', async () => {
    const all = await modern()
    const taskId = await begin(all.home)
    const closed = leave(all)
    expect((await getTask(all.away, taskId)).result.status).toBe('working')
    answer(all.running[0]!)
    await closed
    const { result: task } = await getTask(all.away, taskId)
    expect(task).toMatchObject({ taskId, status: 'completed', result: RESULT })
    expect(await ask(all.away, 'tasks/cancel', { taskId })).not.toHaveProperty('error')
    const stranger = { headers: { authorization: 'Bearer two' } }
    expect((await getTask(all.away, taskId, stranger)).error).toMatchObject(GONE)
  })

  it('has failed, where its call was not done in time', async () => {
    const all = await modern()
    const taskId = await begin(all.home)
    await all.members[0]!.streams.close({ drain: 0 })
    const { result: task } = await getTask(all.away, taskId)
    expect(task).toMatchObject({ status: 'failed', error: { data: { reason: 'closing' } } })
  })

  it('of 2025-11-25 can be asked for at another instance, and is not kept past its session', async () => {
    const calls: RawCall[] = []
    const endpoints: RawEndpoint[] = [0, 1].map(i =>
      rawEndpoint(
        call => {
          if (call.message?.method === 'ping') return json(call, {})
          if (call.req.method === 'DELETE') return void call.res.writeHead(200).end()
          calls.push(call)
        },
        { session: `s${i}`, initializeAs: 'json' }
      )
    )
    const options = { tasks: tasks({ pollInterval: 20, tools: { report: 'after' } }) }
    const { members, hub } = await cluster(i => endpoints[i]!, options, {}, 2)
    const [home, away] = members.map(({ url }) => url) as [string, string]
    const { headers } = await initializeSession(home, VERSION)
    const send = async (url: string, method: string, params: object): Promise<Json> =>
      answerOf(
        await post(url, request(1, method, params), {
          accept: 'application/json, text/event-stream',
          ...headers
        })
      )
    const begun = async (url: string): Promise<string> =>
      (await send(url, 'tools/call', { name: 'report', arguments: {}, task: {} })).result.task
        .taskId
    const taskId = await begun(away)
    expect((await send(away, 'tasks/get', { taskId })).result.status).toBe('working')
    expect((await send(away, 'tasks/list', {})).result.tasks).toHaveLength(1)
    const fetched = send(away, 'tasks/result', { taskId })
    await until(() => calls.length === 1)
    json(calls[0]!, { content: [] })
    expect((await fetched).result.content).toEqual([])
    const other = await begun(away)
    expect((await send(away, 'tasks/cancel', { taskId: other })).result.status).toBe('cancelled')
    expect(endpoints[1]!.calls).toHaveLength(0)
    const kept = (): number => [...hub.keys.keys()].filter(key => key.startsWith('r:')).length
    await until(() => kept() === 2)
    const ended = await fetch(home, { method: 'DELETE', headers })
    expect(ended.ok).toBe(true)
    await until(() => kept() === 0)
  })

  it('of 2025-11-25 is found when it has gone, where it has no session', async () => {
    const calls: RawCall[] = []
    const endpoints = [0, 1].map(() =>
      rawEndpoint(
        call => {
          if (call.message?.method === 'ping') return json(call, {})
          calls.push(call)
        },
        { stateless: true }
      )
    )
    const options = { tasks: tasks({ pollInterval: 20, tools: { report: 'after' } }) }
    const { members } = await cluster(i => endpoints[i]!, options, {}, 2)
    const [home, away] = members.map(({ url }) => url) as [string, string]
    const send = async (url: string, method: string, params: object): Promise<Json> =>
      answerOf(
        await post(url, request(1, method, params), {
          accept: 'application/json, text/event-stream',
          ...version
        })
      )
    const { taskId } = (await send(home, 'tools/call', { name: 'report', arguments: {}, task: {} }))
      .result.task
    await until(() => calls.length === 1)
    json(calls[0]!, { content: [] })
    await until(
      async () => (await send(away, 'tasks/get', { taskId })).result.status === 'completed'
    )
    await members[0]!.streams.close()
    expect((await send(away, 'tasks/get', { taskId })).result).toMatchObject({
      taskId,
      status: 'completed'
    })
    expect((await send(away, 'tasks/result', { taskId })).result.content).toEqual([])
    expect((await send(away, 'tasks/cancel', { taskId })).error.code).toBe(-32_602)
  })
})
