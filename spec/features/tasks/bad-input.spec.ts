// Requests about tasks that are wrong in some way: each is told what was wrong, and costs nothing
// else.

import { describe, expect } from '@jest/globals'
import { notification, request, result } from '../../helpers/mcp.js'
import { counts, end, go, meanwhile, send } from '../../helpers/talk/client.js'
import { arrived, type Word } from '../../helpers/talk/client.js'
import { hold, json, refuse } from '../../helpers/talk/endpoint.js'
import { conversation } from '../../helpers/talk/index.js'
import { elicitation, EXTENSION, inputRequired, RESULT } from './setup.js'
import {
  begin,
  call,
  cancelTask,
  idsOf,
  modern,
  ran,
  task,
  told,
  update,
  type Asked
} from './words.js'

const GET = 'tasks/get'
const encoded = (text: string): string => `=?base64?${Buffer.from(text).toString('base64')}?=`
const listening = { notifications: { taskIds: ['a'] } }
const undeclared = { params: listening, capabilities: {} }

describe('a request about a task is refused, and the task goes on:', () => {
  type Row = [what: string, code: number, method: string, wrong: Asked, says?: string]
  const STATUS: Record<number, number> = { [-32602]: 200, [-32601]: 404 }
  const head = (what: string, headers: Record<string, string | undefined>): Row => {
    return [what, -32020, GET, { headers }]
  }
  const legacy = { params: { inputResponses: {} }, capabilities: { tasks: {} } }

  conversation.each<Row>([
    ['without the declaration', -32021, GET, legacy],
    ['without the declaration', -32021, 'tasks/update', legacy],
    ['without the declaration', -32021, 'tasks/cancel', legacy],
    ['that is not a method any more', -32601, 'tasks/result', {}],
    ['that is not a method any more', -32601, 'tasks/list', {}],
    head('another Mcp-Name', { 'mcp-name': 'another' }),
    head('no Mcp-Name', { 'mcp-name': undefined }),
    head('an encoded name that is another', { 'mcp-name': encoded('another') }),
    head('an encoded name that is none', { 'mcp-name': '=?base64?!!?=' }),
    head('an encoded name that is no text', { 'mcp-name': '=?base64?/w==?=' }),
    head('another Mcp-Method', { 'mcp-method': 'tasks/cancel' }),
    head('no Mcp-Method', { 'mcp-method': undefined }),
    ...['AAAAAAAAAAAAAAAAAAAAA', '', '__proto__', 'x'.repeat(8000)].map((taskId): Row => {
      const wrong = { params: { taskId }, headers: { 'mcp-name': taskId } }
      return [`an unknown id, ${taskId.slice(0, 30)}`, -32602, GET, wrong, 'not found']
    }),
    ...[undefined, null, 5, ['a'], {}].map((taskId): Row => {
      return [`no id, ${JSON.stringify(taskId)}`, -32602, GET, { params: { taskId } }, 'taskId']
    }),
    ...[undefined, null, 'x', []].map((inputResponses): Row => {
      const what = `no answers, ${JSON.stringify(inputResponses)}`
      return [what, -32602, 'tasks/update', { params: { inputResponses } }, 'inputResponses']
    })
  ])('%s: %d for %s', (_what, code, method, wrong, says = '') => {
    const error = { code, message: expect.stringContaining(says) }
    return {
      ...modern(),
      client: [
        ...[begin, told(method, { id: 1, error }, { ...wrong, status: STATUS[code] ?? 400 })],
        ...[task('working'), ran(1)]
      ]
    }
  })
})

describe('a request about a task', () => {
  conversation('subscriptions/listen without the declaration, before any other: -32021', {
    ...modern(),
    client: [
      told(
        'subscriptions/listen',
        { id: 1, error: { code: -32021 } },
        { ...undeclared, status: 400 }
      ),
      ran(0)
    ]
  })

  const other = { notifications: { toolsListChanged: true } }
  const own = { extensions: { [EXTENSION]: {} } }
  conversation.each<[string, Asked, capabilities?: object]>([
    ['with the declaration', { params: listening }],
    ['for something else', { params: other, capabilities: {} }],
    ['at an endpoint with tasks of its own', undeclared, own]
  ])('subscriptions/listen %s is the endpoint’s affair', (_name, asked, more = {}) => ({
    ...modern({}, {}, { capabilities: { tools: {}, ...more } }),
    endpoint: [json({})],
    client: [
      told('subscriptions/listen', said => expect(said).toEqual(result(1, {})), asked),
      ({ call }) => expect(call.message.params).toMatchObject(asked.params!)
    ]
  }))

  conversation('with an encoded name that is the same: found', {
    ...modern(),
    client: [
      begin,
      talk => task('working', {}, { headers: { 'mcp-name': encoded(idsOf(talk)[0]!) } })(talk)
    ]
  })

  conversation('in a batch: the endpoint refuses it', {
    ...modern(),
    endpoint: [[hold], [refuse(400, 'no batches')]],
    client: [begin, send(talk => [request(1, GET, { taskId: idsOf(talk)[0] })]), end],
    then({ call, response }) {
      expect(call.message).toMatchObject([{ method: GET }])
      expect(response.text).toBe('no batches')
    }
  })

  conversation('as a notification: the endpoint hears it', {
    ...modern(),
    client: [
      begin,
      send(talk => notification('tasks/cancel', { taskId: idsOf(talk)[0] })),
      task('working')
    ],
    sees: ['202'],
    hears: ['tools/call', 'tasks/cancel']
  })
})

describe('answers', () => {
  const accept = { action: 'accept', content: {} }
  const keys = (expected: string[], of = 1): Word =>
    task(
      'input_required',
      ({ inputRequests }) => expect(Object.keys(inputRequests)).toEqual(expected),
      { of }
    )
  const both = ['r1.q', 'r1.r']
  const asking = {
    endpoint: [hold, json(inputRequired({ q: elicitation('?'), r: elicitation('') })), hold]
  }
  const asked = [begin, go, keys(both)]

  conversation('to nothing that is asked, or to it twice, change nothing', {
    ...{ ...modern(), ...asking },
    client: [
      ...[...asked, begin, go, keys(both, 2)],
      update({ q: accept, 'r2.q': accept, toString: accept, ['__proto__x']: accept }, { of: 1 }),
      keys(both),
      ...[1, 2].flatMap(() => [update({ 'r1.q': accept }, { of: 1 }), keys(['r1.r'])]),
      // Of another task.
      ...[keys(both, 2), ran(2)]
    ]
  })

  conversation('after the end are acknowledged, and the task stays as it was', {
    ...{ ...modern(), ...asking },
    client: [...asked, cancelTask(), update({ 'r1.q': accept }), task('cancelled')]
  })

  conversation.each([
    ['characters', 'x'.repeat(9000)],
    ['bytes', '語'.repeat(1500)]
  ])('that are more %s than may be kept are refused, and the question stays', (_name, text) => ({
    ...{ ...modern({}, { maxStreamBytes: 4000, maxBytes: 8000 }), ...asking },
    client: [
      ...asked,
      told(
        'tasks/update',
        { error: { data: { reason: 'too-many-tasks' } } },
        { params: { inputResponses: { 'r1.q': { action: 'accept', content: { text } } } } }
      ),
      keys(both)
    ]
  }))
})

describe('creations', () => {
  const always = { tools: { report: 'always' } } as const
  const as = (who: string) => ({ headers: { authorization: `Bearer ${who}` } })

  conversation('beyond what one owner may have are refused with a reason, and no others', {
    ...modern({ ...always, maxPerOwner: 3 }),
    client: [
      ...[begin(as('b')), begin(as('a')), begin(as('a')), begin(as('a'))],
      ...Array<Word>(17).fill(
        told(
          'tools/call',
          { error: { data: { reason: 'too-many-tasks' } } },
          { params: { name: 'report' }, ...as('a') }
        )
      ),
      ...[ran(4), counts({ tasks: 4 }), task('working', {}, { of: 1, ...as('b') })],
      // One that might have become a task is answered without.
      ...[meanwhile(call({ name: 'plain', ...as('a') })), arrived(5), go, end]
    ],
    sees: ['json', result(1, RESULT)]
  })

  conversation('with a head that is wrong are for the endpoint to refuse', {
    ...modern(always),
    endpoint: [refuse(400, '{}')],
    client: [call({ headers: { 'mcp-name': 'b' } }), end],
    sees: ['400'],
    then: ({ call }) => expect(call.req.headers['mcp-name']).toBe('b')
  })
})
