// A call that becomes a task, from its first answer to its result: the extension of 2026-07-28.

import { describe, expect } from '@jest/globals'
import type { RequestHandler } from 'express'
import { notification, result } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { closed, counts, end, go } from '../../helpers/talk/client.js'
import type { Word } from '../../helpers/talk/client.js'
import { destroy, emit, hold, json, leave, named, note } from '../../helpers/talk/endpoint.js'
import { refuse, resultIs, type Line } from '../../helpers/talk/endpoint.js'
import { conversation } from '../../helpers/talk/index.js'
import { EXTENSION, RESULT } from './setup.js'
import { ask, become, begin, call, cancelTask, fails, modern, ran, task, told } from './words.js'

const DATE = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
const progress = (params: object) =>
  emit(notification('notifications/progress', { progressToken: 'p', ...params }))
const PATIENT = { after: 60_000 }

describe('a call that has no result in time', () => {
  const CREATED = {
    taskId: expect.stringMatching(/^[\w-]{21}$/),
    status: 'working',
    createdAt: DATE,
    lastUpdatedAt: DATE,
    ttlMs: 3_600_000,
    pollIntervalMs: 300
  }

  conversation('is answered with a task, which can be found at once, and has its result', {
    ...modern({ pollInterval: 300 }),
    client: [
      ...[call({ id: 'own' }), become],
      told(
        'tasks/get',
        (said, talk) => {
          const same = { ...(talk.sees()[1] as Json).result, resultType: 'complete' }
          expect(said).toEqual(result(7, same))
        },
        { id: 7 }
      ),
      ({ call: { message, isClosed, res } }) => {
        expect(message.id).toBe('own')
        expect([isClosed, res.writableEnded, res.destroyed]).toEqual([false, false, false])
      },
      ...[go, task('completed', { resultType: 'complete', result: RESULT })],
      // It stays what it is, however often it is looked at.
      ...[task('completed', { result: RESULT }), ran(1)]
    ],
    sees: ['json', result('own', { resultType: 'task', ...CREATED })]
  })
})

describe('a task ends', () => {
  const body = (text: string): Line =>
    named('body', ({ res }) => res.writeHead(200, { 'Content-Type': 'application/json' }).end(text))
  const own = (more: object): Line => emit({ jsonrpc: '2.0', id: 1, ...more })
  const other = emit(result('another', { content: [] }))
  const ISSUED = { result: RESULT }
  const NONE = { error: { data: { reason: 'no-response' } } }
  const refused = { code: -31000, data: { reason: 'endpoint-refused', status: 500 } }

  conversation.each<[why: string, Line[], status: string, more: object | ((task: Json) => void)]>([
    [
      'its tool reports an error',
      [json({ ...RESULT, isError: true })],
      'completed',
      { result: { isError: true } }
    ],
    [
      'the request fails',
      [fails(-32603, 'broken')],
      'failed',
      ({ error, ...task }) => {
        expect(error).toEqual({ code: -32603, message: 'broken' })
        expect(task).not.toHaveProperty('result')
      }
    ],
    ['an error beside it is `null`', [own({ ...ISSUED, error: null }), leave], 'completed', ISSUED],
    ['an error alone is `null`', [own({ error: null }), leave], 'failed', NONE],
    ['the answer has another status', [refuse(500, 'oops')], 'failed', { error: refused }],
    ['the answer says nothing', [body('oops')], 'failed', NONE],
    ['the endpoint breaks off', [progress({ progress: 1 }), destroy], 'failed', NONE],
    // It does not end its response, and nobody waits for that.
    ['there are two answers', [own(ISSUED), own({ result: {} }), hold], 'completed', ISSUED],
    [
      'its own answer is behind another',
      [other, emit(result('1', RESULT)), leave],
      'completed',
      ISSUED
    ],
    ['there is another answer alone', [other, leave], 'completed', { result: { content: [] } }]
  ])('where %s', (_why, lines, status, more) => ({
    ...modern(),
    endpoint: [hold, ...lines],
    client: [begin, go, task(status, more), closed, ran(1)]
  }))

  conversation('with the numbers of its result as the endpoint wrote them', {
    ...modern(),
    endpoint: [hold, body('{"jsonrpc":"2.0","id":1,"result":{"n":12345678901234567890}}')],
    client: [begin, go, task('completed')],
    then: async talk =>
      expect((await ask(talk, 'tasks/get')).text).toContain('"n":12345678901234567890')
  })

  let kept = 0
  conversation('where its result is more than may be kept, and can be found all the same', {
    ...modern({}, { maxStreamBytes: 2000 }),
    endpoint: [hold, json({ content: [{ type: 'text', text: 'x'.repeat(5000) }] })],
    client: [
      ...[begin, go],
      task('failed', ({ error }) => {
        expect(error).toMatchObject({ data: { reason: 'overflow' } })
        kept = JSON.stringify(error).length
      })
    ],
    // Of it, the error is kept.
    then: talk => expect(talk.stats().bytes).toBe(kept)
  })
})

describe('what the endpoint says on the way', () => {
  const params = { _meta: { progressToken: 'p' } }
  conversation('reaches who waits, and the task is the last event of its stream', {
    ...modern({ after: 60 }),
    endpoint: [progress({ progress: 1 }), hold, resultIs(RESULT)],
    client: [call({ params }), become, go, task('completed')],
    sees: [
      notification('notifications/progress', { progressToken: 'p', progress: 1 }),
      expect.objectContaining({
        result: expect.objectContaining({ resultType: 'task', status: 'working' })
      }),
      'end'
    ]
  })

  const said = (statusMessage: string): Word[] => [go, task('working', { statusMessage })]
  const long = 'x'.repeat(496)
  conversation('is the status of the task from then on, in few words', {
    ...modern(),
    endpoint: [
      ...[hold, progress({ progress: 3, total: 10, message: 'Reading' })],
      ...[hold, progress({ progress: 4, total: 10 })],
      ...[hold, progress({ progress: 5, message: 'x'.repeat(1000) }), note(1)],
      ...[hold, resultIs(RESULT)]
    ],
    client: [
      ...[begin, ...said('Reading (3/10)'), ...said('4/10'), ...said(`${long} (5)`)],
      // What has been read is kept no longer, and no loss to anybody.
      counts({ evictions: 0 }),
      talk => expect(talk.stats().bytes).toBeLessThan(1000),
      ...[go, task('completed', { statusMessage: `${long} (5)` })]
    ]
  })
})

describe('tasks/cancel', () => {
  conversation('is acknowledged, ends the call at the endpoint, and leaves a cancelled task', {
    ...modern(),
    client: [
      ...[begin, cancelTask(), closed],
      task('cancelled', task => {
        expect(task).not.toHaveProperty('result')
        expect(task).not.toHaveProperty('error')
      })
    ],
    counts: { tasks: 1, bytes: 0 }
  })

  conversation('is acknowledged once more on a task that has ended, which stays as it was', {
    ...modern(),
    client: [begin, go, task('completed'), cancelTask(), task('completed')]
  })
})

describe('settings of a tool', () => {
  const tools = { quick: 'never', slow: 'always', job: 'required' } as const

  conversation('`always`: a task at once, however long the others wait', {
    ...modern({ ...PATIENT, tools }),
    endpoint: [json(RESULT)],
    client: [begin({ name: 'slow' }), call({ name: 'other' }), end],
    sees: ['json', result(1, RESULT)]
  })

  const data = { requiredCapabilities: { extensions: { [EXTENSION]: {} } } }
  conversation('`required`: refused to a client that knows no tasks, and the tool does not run', {
    ...modern({ tools }),
    client: [
      told(
        'tools/call',
        { id: 1, error: { code: -32021, data } },
        { params: { name: 'job' }, capabilities: {}, status: 400 }
      ),
      ran(0)
    ]
  })

  const inFront: RequestHandler[] = [(_req, res) => void res.status(401).json({ error: 'who?' })]
  conversation('a refusal in front of the endpoint is the answer to the call: no task', {
    ...modern({ tools }, {}, { inFront }),
    client: [call({ name: 'slow' }), end],
    sees: ['401'],
    counts: { tasks: 0 }
  })
})
