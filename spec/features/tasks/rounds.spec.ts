// A task whose endpoint asks its client: rounds of questions, carried on by the middleware.

import { describe, expect, it, jest } from '@jest/globals'
import {
  answer,
  ask,
  begin,
  callTool,
  elicitation,
  getTask,
  inputRequired,
  RESULT,
  serveTasks,
  until
} from './setup.js'

const accept = (answer: unknown) => ({ action: 'accept', content: { answer } })
const update = (url: string, taskId: string, inputResponses: object, headers = {}) =>
  ask(url, 'tasks/update', { taskId, inputResponses }, { headers })

describe('an endpoint that asks', () => {
  it('before there is a task, asks its client itself', async () => {
    const { url, calls } = await serveTasks({ after: 60_000 })
    const waiting = callTool(url)
    answer(await calls.nth(1), inputRequired({ q: elicitation('who?') }, 'state'))
    expect((await waiting).result).toEqual(inputRequired({ q: elicitation('who?') }, 'state'))
  })

  it('of a task, gets the answers with its own keys and state, in a request of its own', async () => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url)
    const first = await calls.nth(1)
    answer(
      first,
      inputRequired({ q: elicitation('who?'), 'q 2': elicitation('why?') }, 'a "state"')
    )
    const task = await until(url, taskId, 'input_required')
    expect(task).toMatchObject({ resultType: 'complete' })
    expect(task).not.toHaveProperty('requestState')
    expect(task.inputRequests).toEqual({
      'r1.q': elicitation('who?'),
      'r1.q 2': elicitation('why?')
    })

    await update(url, taskId, { 'r1.q': accept('me') })
    // Gone in the very next look.
    expect((await getTask(url, taskId)).result.inputRequests).toEqual({
      'r1.q 2': elicitation('why?')
    })
    expect(calls).toHaveLength(1)
    await update(url, taskId, { 'r1.q 2': accept('so') })
    const second = await calls.nth(2)
    expect(second.message.id).not.toBe(first.message.id)
    expect(second.message.params).toEqual({
      ...first.message.params,
      inputResponses: { q: accept('me'), 'q 2': accept('so') },
      requestState: 'a "state"'
    })
    expect(second.req.headers).toMatchObject({ 'mcp-method': 'tools/call', 'mcp-name': 'report' })
    expect((await getTask(url, taskId)).result.status).toBe('working')
    answer(second)
    expect(await until(url, taskId, 'completed')).toMatchObject({ result: RESULT })
  })

  it('asks again under keys that were never used, whatever its own are', async () => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url)
    for (let round = 1; round <= 3; round++) {
      answer(await calls.nth(round), inputRequired({ q: elicitation(`${round}?`) }, `${round}`))
      const { inputRequests } = await until(url, taskId, 'input_required')
      expect(inputRequests).toEqual({ [`r${round}.q`]: elicitation(`${round}?`) })
      await update(url, taskId, { [`r${round}.q`]: accept(round) })
      const { message } = await calls.nth(round + 1)
      expect(message.params).toMatchObject({
        inputResponses: { q: accept(round) },
        requestState: `${round}`
      })
    }
    answer(await calls.nth(4))
    await until(url, taskId, 'completed')
  })

  it('is told what the client knows now: its new credentials, and the headers of the call', async () => {
    const { url, calls } = await serveTasks({}, {}, { owner: () => 'one' })
    const headers = { authorization: 'Bearer old', 'mcp-param-region': 'north', 'x-trace': '1' }
    const taskId = await begin(url, 'report', { headers })
    answer(await calls.nth(1), inputRequired({ q: elicitation('who?') }))
    await until(url, taskId, 'input_required')
    await update(url, taskId, { 'r1.q': accept('me') }, { authorization: 'Bearer new' })
    const { req, message } = await calls.nth(2)
    expect(req.headers).toMatchObject({
      authorization: 'Bearer new',
      'mcp-param-region': 'north',
      'mcp-name': 'report'
    })
    expect(message.params).not.toHaveProperty('requestState')
  })

  it('for nothing but to be asked again is asked again, with its state', async () => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url)
    answer(await calls.nth(1), inputRequired(undefined, 'later'))
    const { message } = await calls.nth(2)
    expect(message.params).toMatchObject({ name: 'report', requestState: 'later' })
    expect(message.params).not.toHaveProperty('inputResponses')
    expect((await getTask(url, taskId)).result.status).toBe('working')
    answer(calls[1]!)
    await until(url, taskId, 'completed')
  })

  it('again and again for nothing but that is asked more and more seldom', async () => {
    const real = globalThis.setTimeout
    const pauses: number[] = []
    const spy = jest.spyOn(globalThis, 'setTimeout').mockImplementation(((
      due: () => void,
      delay = 0,
      ...args: []
    ) => {
      // Each pause but the one that lasts as long as other things do.
      if ([250, 500, 2000, 4000, 5000].includes(delay)) pauses.push(delay)
      return real(due, delay < 250 || delay > 5000 ? delay : 1, ...args)
    }) as typeof setTimeout)
    try {
      const { url, calls } = await serveTasks({}, {}, { upgradeAfter: null, keepAlive: null })
      const taskId = await begin(url)
      for (let n = 1; n <= 7; n++) answer(await calls.nth(n), inputRequired(undefined, `${n}`))
      expect((await calls.nth(8)).message.params.requestState).toBe('7')
      // 250, 500, 1000, 2000, 4000, 5000, 5000
      expect(pauses).toEqual([250, 500, 2000, 4000, 5000, 5000])
      // A question starts that over.
      answer(calls[7]!, inputRequired({ q: elicitation('who?') }, '8'))
      await until(url, taskId, 'input_required')
      await update(url, taskId, { 'r1.q': accept('me') })
      answer(await calls.nth(9), inputRequired(undefined, '9'))
      await calls.nth(10)
      expect(pauses.slice(6)).toEqual([250])
    } finally {
      spy.mockRestore()
    }
  })

  it('for nothing at all has failed', async () => {
    const { url, calls } = await serveTasks()
    const taskId = await begin(url)
    answer(await calls.nth(1), inputRequired())
    await until(url, taskId, 'failed')
  })

  it('under a long name, counts with it, and has failed where that is more than may be kept', async () => {
    const { url, calls } = await serveTasks({}, {}, { maxStreamBytes: 4000, maxBytes: 80_000 })
    const taskId = await begin(url)
    const half = 'x'.repeat(1800)
    answer(await calls.nth(1), inputRequired({ [half]: elicitation(half) }))
    expect((await until(url, taskId, 'failed')).error.data).toEqual({ reason: 'overflow' })
  })

  it('without a state, in so many words, gets none back, and is not asked again for it', async () => {
    const { url, calls } = await serveTasks()
    const none = { resultType: 'input_required', requestState: null }
    const taskId = await begin(url)
    answer(await calls.nth(1), { ...none, inputRequests: { q: elicitation('who?') } })
    await until(url, taskId, 'input_required')
    await update(url, taskId, { 'r1.q': accept('me') })
    const { message } = await calls.nth(2)
    expect(message.params).not.toHaveProperty('requestState')
    answer(calls[1]!, { ...none, inputRequests: null })
    expect((await until(url, taskId, 'failed')).error.data.reason).toBe('endpoint-failed')
    expect(calls).toHaveLength(2)
  })

  it('and has no answer to what it gets, whatever its status, has failed', async () => {
    const { url, calls } = await serveTasks()
    const statuses = [200, 202, 204]
    for (const [i, status] of statuses.entries()) {
      const taskId = await begin(url)
      answer(await calls.nth(2 * i + 1), inputRequired({ q: elicitation('who?') }))
      await until(url, taskId, 'input_required')
      await update(url, taskId, { 'r1.q': accept('me') })
      const { res } = await calls.nth(2 * i + 2)
      res.writeHead(status).end()
      expect((await until(url, taskId, 'failed')).error.data).toEqual({ reason: 'no-response' })
    }
  })

  it('in the round that a client has begun before, gets its answers once', async () => {
    const { url, calls } = await serveTasks()
    const params = { name: 'report', inputResponses: { a: accept(1) }, requestState: 'one' }
    const { taskId } = (await ask(url, 'tools/call', params)).result
    const first = await calls.nth(1)
    expect(first.message.params).toMatchObject(params)
    answer(first, inputRequired({ b: elicitation('and?') }, 'two'))
    await until(url, taskId, 'input_required')
    await update(url, taskId, { 'r1.b': accept(2) })
    expect((await calls.nth(2)).message.params).toMatchObject({
      inputResponses: { b: accept(2) },
      requestState: 'two'
    })
    expect(calls[1]!.message.params.inputResponses).not.toHaveProperty('a')
  })
})
