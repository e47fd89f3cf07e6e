// A task whose endpoint asks its client: rounds of questions, carried on by the middleware.

import { describe, expect, jest } from '@jest/globals'
import { result } from '../../helpers/mcp.js'
import { arrived, end, go, type Word } from '../../helpers/talk/client.js'
import { hold, json, refuse, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, upTo } from '../../helpers/talk/index.js'
import { elicitation, inputRequired, RESULT } from './setup.js'
import { begin, call, modern, ran, task, update } from './words.js'

const accept = (answer: unknown) => ({ action: 'accept', content: { answer } })
const WHO = elicitation('who?')
const asking = (state?: string) => json(inputRequired({ q: WHO }, state))
const again = (state: string) => json(inputRequired(undefined, state))
const asked = (inputRequests: object = { 'r1.q': WHO }): Word =>
  task('input_required', task => expect(task.inputRequests).toEqual(inputRequests))
const answered = update({ 'r1.q': accept('me') })
const ANSWERED = { inputResponses: { q: accept('me') } }
/** What the endpoint says in one request after another. */
const rounds = (...lines: Line[]) => lines.map(line => [hold, line])
/** The nth request of the endpoint's has the params of the first, and these of a round. */
const round = (n: number, expected: object): Word[] => [
  arrived(n),
  ({ runs }) => {
    const { inputResponses: _, requestState: __, ...params } = runs[0]!.call.message.params
    expect(runs[n - 1]!.call.message.params).toEqual({ ...params, ...expected })
  }
]

describe('an endpoint that asks', () => {
  conversation('before there is a task, asks its client itself', {
    ...modern({ after: 60_000 }),
    endpoint: [asking('state')],
    client: [call, end],
    sees: ['json', result(1, inputRequired({ q: WHO }, 'state'))]
  })

  const questions = { q: WHO, 'q 2': elicitation('why?') }
  conversation('of a task, gets the answers with its own keys and state, in its own request', {
    ...modern(),
    endpoint: rounds(json(inputRequired(questions, 'a "state"')), json(RESULT)),
    client: [
      ...[begin, go],
      task('input_required', task => {
        expect(task).toMatchObject({ resultType: 'complete' })
        expect(task).not.toHaveProperty('requestState')
      }),
      asked({ 'r1.q': WHO, 'r1.q 2': questions['q 2'] }),
      // Gone in the very next look.
      ...[answered, asked({ 'r1.q 2': questions['q 2'] }), ran(1)],
      update({ 'r1.q 2': accept('so') }),
      ...round(2, {
        inputResponses: { q: accept('me'), 'q 2': accept('so') },
        requestState: 'a "state"'
      }),
      ({ runs: [first, second] }) => {
        expect(second!.call.message.id).not.toBe(first!.call.message.id)
        expect(second!.call.req.headers).toMatchObject({
          'mcp-method': 'tools/call',
          'mcp-name': 'report'
        })
      },
      ...[task('working'), go, task('completed', { result: RESULT })]
    ]
  })

  conversation('asks again under keys that were never used, whatever its own are', {
    ...modern(),
    endpoint: rounds(...upTo(3).map(n => asking(`${n}`)), json(RESULT)),
    client: [
      begin,
      ...upTo(3).flatMap(n => [
        ...[go, asked({ [`r${n}.q`]: WHO }), update({ [`r${n}.q`]: accept(n) })],
        ...round(n + 1, { inputResponses: { q: accept(n) }, requestState: `${n}` })
      ]),
      ...[go, task('completed')]
    ]
  })

  const headers = { authorization: 'Bearer old', 'mcp-param-region': 'north', 'x-trace': '1' }
  const renewed = { headers: { authorization: 'Bearer new' } }
  conversation('is told what the client knows now: new credentials, and headers of the call', {
    ...modern({}, { owner: () => 'one' }),
    endpoint: [[hold, asking()], [hold]],
    client: [
      ...[begin({ headers }), go, asked(), update({ 'r1.q': accept('me') }, renewed)],
      ...round(2, ANSWERED)
    ],
    then: ({ call }) =>
      expect(call.req.headers).toMatchObject({
        authorization: 'Bearer new',
        'mcp-param-region': 'north',
        'mcp-name': 'report'
      })
  })

  const none = { resultType: 'input_required', requestState: null, inputRequests: null }
  type Row = [what: string, says: object, answers: object | null, gets: object, sent?: object]
  conversation.each<Row>([
    ['its state', inputRequired(undefined, 'later'), null, { requestState: 'later' }],
    ['no state', { ...none, inputRequests: { q: WHO } }, { 'r1.q': accept('me') }, ANSWERED],
    [
      'its answers once, also of a round that its client has begun before',
      inputRequired({ b: WHO }, 'two'),
      { 'r1.b': accept(2) },
      { inputResponses: { b: accept(2) }, requestState: 'two' },
      { inputResponses: { a: accept(1) }, requestState: 'one' }
    ]
  ])('gets %s', (_what, says, answers, gets, params = {}) => ({
    ...modern(),
    endpoint: rounds(json(says), json(RESULT)),
    client: [
      begin({ params }),
      ({ call }) => expect(call.message.params).toMatchObject(params),
      go,
      ...(answers ? [task('input_required'), update(answers)] : []),
      ...[...round(2, gets), task('working'), go, task('completed')]
    ]
  }))

  const pauses: number[] = []
  const hurry = (): void => {
    const real = globalThis.setTimeout
    const hurried = (due: () => void, delay = 0, ...args: []) => {
      // Each pause but the one that lasts as long as other things do.
      if ([250, 500, 2000, 4000, 5000].includes(delay)) pauses.push(delay)
      return real(due, delay < 250 || delay > 5000 ? delay : 1, ...args)
    }
    jest.spyOn(globalThis, 'setTimeout').mockImplementation(hurried as typeof setTimeout)
  }
  conversation('again and again for nothing but that is asked more and more seldom', {
    ...modern({}, { upgradeAfter: null, keepAlive: null }),
    endpoint: [
      ...[[hold, again('1')], ...upTo(6).map(n => [again(`${n + 1}`)])],
      ...[[asking('8')], [again('9')], [hold]]
    ],
    client: [
      ...[hurry, begin, go, asked()],
      ({ runs }) => expect(runs[7]!.call.message.params.requestState).toBe('7'),
      // 250, 500, 1000, 2000, 4000, 5000, 5000
      () => expect(pauses).toEqual([250, 500, 2000, 4000, 5000, 5000]),
      // A question starts that over.
      ...[answered, arrived(10), () => expect(pauses.slice(6)).toEqual([250])]
    ]
  })

  const half = 'x'.repeat(1800)
  conversation.each<[string, asked: object, reason?: string]>([
    ['for nothing at all', inputRequired(), 'endpoint-failed'],
    ['for nothing at all, in so many words', none, 'endpoint-failed'],
    [
      'under a name that counts as more than may be kept',
      inputRequired({ [half]: elicitation(half) }),
      'overflow'
    ]
  ])('%s has failed', (_name, asked, reason) => ({
    ...modern({}, { maxStreamBytes: 4000, maxBytes: 80_000 }),
    endpoint: [hold, json(asked)],
    client: [begin, go, task('failed', { error: { data: { reason } } }), ran(1)]
  }))

  const noResponse = { error: { data: { reason: 'no-response' } } }
  conversation.each([200, 202, 204])(
    'whose answer to what it gets is an empty %d has failed',
    status => ({
      ...modern(),
      endpoint: [[hold, asking()], [refuse(status, '')]],
      client: [begin, go, asked(), answered, task('failed', noResponse)]
    })
  )
})
