// The experimental tasks of 2025-11-25 over an endpoint without any: what is declared, raw requests
// and bad ones.

import { describe, expect, jest } from '@jest/globals'
import express from 'express'
import type { TasksOptions } from '../../../lib/features/tasks/index.js'
import { happenings } from '../../helpers/happenings.js'
import { cancelled, notification, request, result } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { arrived, closed, counts, cut, end, go, listen } from '../../helpers/talk/client.js'
import { meanwhile, on, reply, request as verb, send, take } from '../../helpers/talk/client.js'
import { until, type Word } from '../../helpers/talk/client.js'
import { emit, hold, json, open, resultIs, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo, type Talk } from '../../helpers/talk/index.js'
import { answerOf, RESULT } from './setup.js'
import { ask, asks, become, begin, call, core, fails, idsOf, modern, ran } from './words.js'
import { task, told, type Asked } from './words.js'

const VERSION = '2025-11-25'
const ABOUT = ['tasks/get', 'tasks/result', 'tasks/cancel']
const text = (words: string) => [{ type: 'text', text: words }]
const relatedTo = (taskId: unknown) => ({
  _meta: { 'io.modelcontextprotocol/related-task': { taskId } }
})
const related = (talk: Talk) => relatedTo(idsOf(talk).at(-1))
const waits = (id = 60): Word => asks('tasks/result', { id })
const has = (more: object) => expect.objectContaining(more)
/** Asks, and is told this and nothing else. */
const gives = (method: string, expected: (talk: Talk) => object, asked?: Asked): Word =>
  told(method, ({ result, error }, talk) => expect(error ?? result).toEqual(expected(talk)), asked)
const done = (talk: Talk) => ({ ...RESULT, ...related(talk) })

describe('what is declared', () => {
  const own = { tools: {}, logging: {} }
  const everything = { list: {}, cancel: {}, requests: { tools: { call: {} } } }
  const { list: _list, ...unlisted } = everything
  type Row = [what: string, tasks: object | null, TasksOptions?, session?: string, version?: string]
  const tool = (name: string, taskSupport?: string) => ({
    name,
    ...(taskSupport && { execution: { taskSupport, other: 1 } })
  })
  const plain = [tool('quick', 'forbidden'), tool('plain')]

  conversation.each<Row>([
    ['all, where the endpoint has none', everything, {}, 's'],
    ['no lists, where callers cannot be told apart', unlisted],
    ['nothing, where no tool has been set', null, { tools: { report: 'never' } }, 's'],
    ['nothing, at another revision', null, {}, 's', '2025-06-18']
  ])('is %s', (_name, declared, options, session, protocolVersion = VERSION) => ({
    ...core(options, null),
    endpoint: [
      ({ res }) => void (session && res.setHeader('Mcp-Session-Id', session)),
      json({ protocolVersion, capabilities: own })
    ],
    client: [
      gives(
        'initialize',
        () => ({ protocolVersion, capabilities: { ...own, ...(declared && { tasks: declared }) } }),
        { params: { protocolVersion, capabilities: {} } }
      ),
      ...(declared === unlisted
        ? [told('tasks/list', { error: { code: -32601 } }, { status: 404 })]
        : [])
    ]
  }))

  conversation('is which tools may be tasks', {
    ...core(),
    endpoint: [json({ tools: [tool('report', 'forbidden'), ...plain] })],
    client: [gives('tools/list', () => ({ tools: [tool('report', 'optional'), ...plain] }))]
  })
})

describe('a call that asks to be a task', () => {
  const TASK = {
    taskId: expect.any(String),
    status: 'working',
    createdAt: expect.any(String),
    lastUpdatedAt: expect.any(String),
    ttl: 5000,
    pollInterval: 20
  }

  conversation('is one at once, and its result is there for as long as it was told', {
    ...core(),
    client: [
      ...[call({ params: { task: { ttl: 5000 } } }), become],
      gives('tasks/get', talk => (talk.sees()[1] as Json).result.task, { params: { task: {} } }),
      // The endpoint hears nothing of it.
      ({ call }) => expect(call.message.params).toEqual({ name: 'report', arguments: {} }),
      ...[waits(), go, end],
      task('completed', task => expect(task).not.toHaveProperty('result')),
      gives('tasks/result', done)
    ],
    sees: talk => ['json', result(1, { task: TASK }), primer, result(60, done(talk)), 'end']
  })

  conversation.each([
    ['without the wish', 'report', undefined],
    ['for another tool', 'other', {}]
  ])('%s, is left to the endpoint', (_name, name, task) => ({
    ...core(),
    client: [
      ...[meanwhile(call({ name, params: { task } })), arrived(1)],
      ({ call }) => expect(call.message.params.task).toEqual(task),
      ...[go, end]
    ],
    sees: ['json', result(1, RESULT)]
  }))

  conversation('gives its result to who asks for it, though it was made at 2026-07-28', {
    ...modern({ tools: { report: 'always' } }),
    client: [
      begin({ headers: { authorization: 'Bearer one' } }),
      send(talk => request(1, 'tasks/result', { taskId: idsOf(talk)[0] }), {
        version: VERSION,
        auth: 'one'
      }),
      ...[go, end]
    ],
    sees: [primer, result(1, RESULT), 'end']
  })

  const emits =
    (value: unknown): Line =>
    call =>
      call.emit(result(call.message.id as string, value))
  conversation.each<[string, Line, status: string, state: object, (talk: Talk) => object]>([
    [
      'in words where its tool reports an error',
      json({ content: text('disk full'), isError: true }),
      'failed',
      { statusMessage: 'disk full' },
      talk => ({ content: text('disk full'), isError: true, ...related(talk) })
    ],
    [
      'the error of the request',
      fails(-32603, 'broken'),
      'failed',
      {},
      () => ({ code: -32603, message: 'broken' })
    ],
    ...[null, 'done', [1, 2]].map((value): [string, Line, string, object, typeof related] => [
      'JSON, where the result is none',
      emits(value),
      'completed',
      {},
      related
    ])
  ])('gives %s', (_name, line, status, state, expected) => ({
    ...core(),
    endpoint: [hold, line],
    client: [begin, go, task(status, state), gives('tasks/result', expected)]
  }))

  conversation.each([
    [-1, undefined],
    [0, undefined],
    ['1000', undefined],
    [{}, undefined],
    [null, 86_400_000],
    [1e15, 86_400_000],
    [1500.4, 1500],
    [undefined, 3_600_000]
  ])('with a ttl of %j gets %j', (ttl, given) => {
    const error = { code: -32602, message: expect.stringContaining('task.ttl') }
    const expected = given === undefined ? { error } : { result: { task: { ttl: given } } }
    const asked = { params: { name: 'report', task: { ttl } } }
    return {
      ...core(),
      client: [told('tools/call', expected, asked)],
      counts: { tasks: given ? 1 : 0 }
    }
  })

  const keyed = { headers: { 'idempotency-key': 'sent-once-and-again' } }
  conversation('is one task where it is sent twice under one key', {
    ...core(),
    client: [call(keyed), end, call(keyed), end, arrived(1), ran(1)],
    counts: { tasks: 1 },
    then(talk) {
      const [, first, , second] = talk.sees() as Json[]
      expect(first.result.task).toMatchObject({ status: 'working' })
      expect(second).toEqual(first)
    }
  })

  conversation.each([
    ['as it was sent', []],
    ['parsed in front', [express.json()]]
  ])('is one request of the endpoint’s, with a body of its own length, %s', (_name, inFront) => ({
    ...{ ...core({}, null), inFront },
    client: [
      ...[begin({ id: 'the client’s', params: { n: 1 } }), arrived(1)],
      ({ call: { message, req } }) => {
        expect(message.params).toEqual({ name: 'report', arguments: {}, n: 1 })
        // What its client cancels by its own id is not the task.
        expect(message.id).not.toBe('the client’s')
        const length = String(Buffer.byteLength(JSON.stringify(message)))
        expect(req.headers['content-length']).toBe(length)
        const at = req.rawHeaders.findIndex(name => /^content-length$/i.test(name))
        expect(req.rawHeaders[at + 1]).toBe(length)
      },
      ...[counts({ tasks: 1, live: 1 }), waits(), go, end, ran(1)]
    ],
    sees: talk => [primer, result(60, done(talk)), 'end']
  }))

  conversation('is refused where its owner has as many as may be', {
    ...core({ maxPerOwner: 2 }),
    client: [
      async talk => {
        const created = happenings('created')
        const refused = told(
          'tools/call',
          { error: { data: { reason: 'too-many-tasks' } } },
          { params: { name: 'report', task: {} } }
        )
        await talk.plays(begin, begin, () => expect(created).toHaveLength(2), refused, ran(2))
        // There was no stream, so none has to end.
        expect(created).toHaveLength(2)
      }
    ]
  })
})

describe('requests about a task', () => {
  const cancellation = ({ requests }: Talk): Json =>
    requests.find(({ message }) => message?.method === 'notifications/cancelled')?.message
  const refused = { error: { code: -32602 } }

  conversation(
    'tasks/cancel answers with the task, tells the endpoint, and refuses what has ended',
    {
      ...core(),
      client: [
        ...[begin, arrived(1), waits()],
        talk =>
          told('tasks/cancel', { result: { taskId: idsOf(talk)[0], status: 'cancelled' } })(talk),
        ...[closed, end, until(talk => cancellation(talk) !== undefined)],
        talk => expect(cancellation(talk).params.requestId).toBe(talk.call.message.id),
        ...[told('tasks/cancel', refused), told('tasks/result', refused), task('cancelled')]
      ],
      sees: [primer, 'error -32602 task-cancelled of 60', 'end']
    }
  )

  conversation('tasks/update is no method of this revision: the endpoint says so', {
    ...core(),
    endpoint: [[hold], [fails(-32601, 'Method not found')]],
    client: [begin, told('tasks/update', { error: { code: -32601 } }), ran(2)],
    then: ({ call }) => expect(call.message.method).toBe('tasks/update')
  })

  conversation('notifications/cancelled for the call is no cancellation', {
    ...core(),
    client: [begin, send(cancelled(1)), end, task('working'), arrived(1)],
    sees: ['202'],
    then: ({ call }) => expect(call.isClosed).toBe(false)
  })

  conversation('tasks/result that was cut is asked again, and gives the same', {
    ...core(),
    client: [begin, waits(), cut, waits(), go, end],
    sees: talk => [primer, result(60, done(talk)), 'end']
  })

  conversation('tasks/list has them all, page by page', {
    ...core(),
    client: [
      ...Array<Word>(53).fill(begin),
      async talk => {
        const page = async (cursor?: unknown): Promise<Json> =>
          answerOf(await ask(talk, 'tasks/list', { params: { cursor } }))
        const { result: first } = await page()
        expect(first.tasks).toHaveLength(50)
        const { result: second } = await page(first.nextCursor)
        expect(second).not.toHaveProperty('nextCursor')
        const listed = [...first.tasks, ...second.tasks].map((task: Json) => task.taskId)
        expect(listed).toEqual(idsOf(talk))
        for (const cursor of ['made-up', 5, null]) expect(await page(cursor)).toMatchObject(refused)
      }
    ]
  })

  conversation.each(ABOUT)(
    '%s knows no ids that are made up, of others, oversized, or none',
    method => {
      const unknown = { error: { code: -32602, data: { reason: 'task-unknown' } } }
      const none = { error: { message: expect.stringContaining('taskId') } }
      return {
        ...core(),
        client: [
          ...[begin, told(method, unknown, { headers: { authorization: 'Bearer other' } })],
          ...['made-up', '__proto__', 'x'.repeat(10_000)].map(taskId =>
            told(method, unknown, { params: { taskId } })
          ),
          ...[told(method, none, { params: { taskId: undefined } }), task('working')]
        ]
      }
    }
  )

  conversation('tasks of a session that has ended are gone, and what runs of them', {
    ...core(),
    client: [
      begin,
      arrived(1),
      verb('DELETE'),
      closed,
      counts({ tasks: 0 }),
      told('tasks/get', refused)
    ]
  })
})

describe('a question of the endpoint', () => {
  const question = (id: string, message = 'Who?') => request(id, 'elicitation/create', { message })
  const asks = (id: string): Line[] => [hold, emit(question(id)), hold, resultIs(RESULT)]
  const asked = (id: string, talk: Talk) =>
    has({ id, params: { message: 'Who?', ...related(talk) } })
  const status = (status: string) => has({ params: has({ status }) })

  conversation('reaches who waits for the result, and its answer the endpoint', {
    ...{ ...core(), endpoint: asks('q1') },
    client: [
      ...[begin, waits(), go, task('input_required'), reply('q1'), task('working')],
      ...[go, on(0, end)]
    ],
    sees: talk => [primer, 'ping', asked('q1', talk), result(60, done(talk)), 'end', '202']
  })

  conversation('reaches the listen channel where nobody waits, once, with changes of status', {
    ...{ ...core(), endpoint: asks('q2') },
    client: [
      ...[listen, begin, go, task('input_required'), waits(), reply('q2'), task('working')],
      ...[go({ run: 1 }), on(1, end), on(0, take(5))]
    ],
    sees: talk => [
      primer,
      has({ params: has({ taskId: idsOf(talk)[0], status: 'input_required', ttl: 3_600_000 }) }),
      ...[asked('q2', talk), status('working'), status('completed')],
      ...[primer, 'ping', 'asks q2', result(60, done(talk)), 'end', '202']
    ]
  })

  let before = 0
  const large = (id: string): Line => emit(question(id, 'x'.repeat(10_000)))
  const holds = (more: number) => (talk: Talk) => {
    const { bytes } = talk.stats()
    if (more > 0) expect(bytes).toBeGreaterThan(before + more)
    else expect(bytes).toBe(before)
  }
  conversation('costs nothing any more once it has been answered, or taken back', {
    ...core(),
    endpoint: [hold, large('a'), hold, large('b'), hold, emit(cancelled('b')), hold],
    client: [
      ...[begin, arrived(1), (talk: Talk) => void (before = talk.stats().bytes)],
      ...[go, task('input_required'), holds(10_000), reply('a'), task('working'), holds(0)],
      ...[go, task('input_required'), go, task('working'), holds(0)]
    ]
  })

  conversation('waits for somebody to hear it, again on each new wire, and once on each', {
    ...{ ...core(), endpoint: asks('q3') },
    client: [
      ...[begin, go, task('input_required'), waits(61), take(3), cut, waits(63), take(3)],
      ...[task('input_required'), go, end]
    ],
    sees: [primer, 'ping', 'asks q3', primer, 'ping', 'asks q3', 'result of 63', 'end']
  })

  conversation('is not asked of a client that cancels the task', {
    ...{ ...core(), endpoint: asks('q6') },
    client: [begin, go, task('input_required'), listen, told('tasks/cancel', {}), take(2)],
    sees: talk => [primer, has({ params: has({ taskId: idsOf(talk)[0], status: 'cancelled' }) })]
  })

  conversation(
    'reaches the next listen channel, once, where the one that it was given on has ended',
    {
      ...{ ...core(), endpoint: asks('q5') },
      client: [
        ...[listen, begin, go, task('input_required'), take(3), go({ run: 0 }), end, listen],
        ...upTo(3).map(() => task('input_required')),
        ...[on(1, take(2)), task('input_required'), reply('q5'), go({ run: 1 }), task('completed')],
        on(1, take(2))
      ],
      sees: [
        ...[primer, status('input_required'), 'asks q5', 'end'],
        ...[primer, 'asks q5', status('working'), status('completed'), '202']
      ]
    }
  )

  const heard =
    (id: string): Word =>
    async talk => {
      await go({ run: 0 })(talk)
      const { response } = talk.wires[0]!
      while (!response.messages().some(message => message.id === id)) await response.next()
    }
  const says = (id: string): Line[] => [emit(question(id)), hold]
  conversation('on the listen channel is the task’s, where that is the only call', {
    ...core(),
    channel: [
      ...[open, hold, ...says('q7'), ...says('q8'), ...says('q9'), emit(cancelled('q9')), hold],
      ...[...says('q10'), ...says('q11'), ...says('q12')]
    ],
    endpoint: [open, hold, resultIs(RESULT)],
    client: [
      ...[listen, heard('q7'), begin, waits(), heard('q8'), task('input_required')],
      ...[reply('q8'), task('working'), heard('q9'), task('input_required')],
      ...[go({ run: 0 }), task('working')],
      ...[call({ name: 'other' }), heard('q10'), go({ run: 2 }), end],
      ...[begin, heard('q11'), told('tasks/cancel', {}), heard('q12'), go({ run: 1 }), on(1, end)]
    ],
    then(talk) {
      const questions = talk.wires[0]!.response.messages().filter(({ id }) => id !== undefined)
      const all = { message: 'Who?' }
      const own = { ...all, ...relatedTo(idsOf(talk)[0]) }
      expect(questions.map(({ params }) => params)).toEqual([all, own, own, all, all, own])
    }
  })

  conversation('fails the task at once where there is no session to answer in', {
    ...{ ...core({}, null), endpoint: asks('q4') },
    client: [
      ...[begin, go, task('failed', { statusMessage: expect.stringContaining('session') }), closed],
      told('tasks/result', { error: { data: { reason: 'question-without-session' } } })
    ]
  })
})

describe('progress of a task', () => {
  const progress = (progress: number, more = {}) => ({ progressToken: 'p', progress, ...more })
  const reports = (params: object): Line[] => [
    hold,
    emit(notification('notifications/progress', params))
  ]

  const half = progress(1, { total: 2, message: 'half' })
  conversation('goes on by the token of the call', {
    ...core(),
    endpoint: [...reports(half), hold],
    client: [
      ...[begin({ params: { _meta: { progressToken: 'p' } } }), waits(), go, take(2)],
      task('working', { statusMessage: 'half (1/2)' })
    ],
    sees: talk => [primer, notification('notifications/progress', { ...half, ...related(talk) })]
  })

  let time: number | undefined
  const at =
    (ms: number): Word =>
    () => {
      time ??= performance.now()
      jest.spyOn(performance, 'now').mockReturnValue(time + ms)
    }
  const reported = (n: number): Word[] => [go, task('working', { statusMessage: `${n}` })]
  const states = ({ wires: [channel] }: Talk) =>
    channel!.messages.flatMap(({ params: { status, statusMessage } }) =>
      status ? [`${status} ${statusMessage}`] : []
    )
  conversation('is told on the listen channel once a second, and each change of status at once', {
    ...core(),
    endpoint: [...upTo(6).flatMap(n => reports(progress(n))), hold, resultIs(RESULT)],
    client: [
      ...[listen, begin, at(0), ...upTo(3).flatMap(reported), at(999), ...reported(4)],
      ...[at(1000), ...reported(5), ...reported(6), go, task('completed'), on(0, take(10))]
    ],
    then: talk => expect(states(talk)).toEqual(['working 1', 'working 5', 'completed 6'])
  })
})

const own = { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } }
const answers: Line = ({ message }, run) => {
  const by = message.method
  return json(by === 'initialize' ? { protocolVersion: VERSION, capabilities: own } : { by })(
    run.call,
    run
  )
}
conversation('an endpoint with tasks of its own is left alone', {
  ...core({ tools: { report: 'always' } }, null),
  endpoint: [answers],
  client: [
    told('initialize', ({ result }) => expect(result.capabilities).toEqual(own), {
      params: { protocolVersion: VERSION, capabilities: {} }
    }),
    ...['tools/call', ...ABOUT, 'tasks/list'].map(method =>
      gives(method, () => ({ by: method }), { params: { taskId: 'own', name: 'report', task: {} } })
    )
  ]
})
