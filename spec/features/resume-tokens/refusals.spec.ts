// A request with a token that does not hold: told why, and never passed on.

import { describe, expect, jest } from '@jest/globals'
import { callTool, request, result, type RequestId } from '../../helpers/mcp.js'
import { closed, counts, end, go, send, type Word } from '../../helpers/talk/client.js'
import { hold, json } from '../../helpers/talk/endpoint.js'
import { conversation, type Talk } from '../../helpers/talk/index.js'
import { given, plain, report, TEXT, tokens, tokensOf, type TokenCall } from './setup.js'

/** Fakes what passes on its own: the clock, not the timers that servers run by. */
const inAnHour = (hours: number): Word =>
  function inAnHour() {
    const now = performance.now()
    jest.spyOn(performance, 'now').mockImplementation(() => now + hours * 3_600_000)
  }

const refusal = (id: RequestId | null, reason: string) => ({
  ...{ jsonrpc: '2.0', id },
  error: { code: -32602, message: expect.stringMatching(/^Invalid params: /), data: { reason } }
})
const refused = (reason: string, id: RequestId | null = 2) => ['json', refusal(id, reason)]
const DONE = ['json', result(2, TEXT)]
const SLOW = { ...tokens(), endpoint: [hold, json(TEXT)] }
const resume = (more: TokenCall = {}): Word => report({ id: 2, token: 1, ...more })
const ONCE = ['tools/call']
const withToken = (id: unknown, resumeToken: string) => {
  const { params, ...call } = callTool(1, 'any')
  return { ...call, id, params: { ...params, _meta: { resumeToken } } }
}

describe('a request with a token is refused, and does not reach the endpoint,', () => {
  conversation.each<[string, unknown]>([
    ['that was never given out', 'V1StGXR8_Z5jdHi6B-myT'],
    ['that is not even one', 'x'],
    ['that is empty', ''],
    ['that is an object', { token: 1 }],
    ['that is true', true],
    ['that is a member of every object', '__proto__']
  ])('%s', (_name, token) => ({
    ...SLOW,
    client: [report({ id: 3, token }), counts({ refusals: 1 })],
    sees: refused('token-invalid', 3),
    hears: []
  }))

  conversation('that is a number', {
    ...SLOW,
    client: [plain({ id: 3, meta: { resumeToken: 42 } })],
    sees: refused('token-invalid', 3),
    hears: []
  })

  conversation('also where its method gets no tokens, and where it asks as well', {
    ...SLOW,
    client: [
      plain({
        message: request('a', 'prompts/get', { _meta: { resumeToken: 'x' } }),
        prefer: 'respond-async'
      })
    ],
    sees: refused('token-invalid', 'a'),
    hears: []
  })

  const mine = { auth: 'mine' }
  conversation('of another owner, also when it is over', {
    ...SLOW,
    client: [
      ...[report(mine), resume({ auth: 'theirs' }), resume(), resume(mine)],
      ...[report({ id: 3, token: 2, ...mine }), resume({ auth: 'theirs' }), resume(mine)]
    ],
    sees: [
      ...[...given(1), ...refused('token-invalid'), ...refused('token-invalid')],
      ...['json', 'token 2 of 2', 'json', 'token 3 of 3'],
      ...[...refused('token-invalid'), ...refused('token-superseded')]
    ],
    hears: ONCE
  })

  const one = { session: 'one' }
  conversation('of another session', {
    ...SLOW,
    client: [report(one), resume({ session: 'two' }), resume(), resume(one)],
    sees: [
      ...[...given(1), ...refused('token-invalid'), ...refused('token-invalid')],
      ...['json', 'token 2 of 2']
    ]
  })

  const both = { ...mine, ...one }
  const elsewhere = ({ url }: Talk): TokenCall[] => [
    ...[{ ...both, auth: 'theirs' }, { ...both, session: 'two' }, mine],
    { ...both, url: `${url}/other` }
  ]
  /** What comes on the wire, but for the time. */
  const answers = ({ wires }: Talk): unknown[] =>
    wires.map(({ response: { status, text, headers } }) => {
      const { date: _date, ...rest } = headers
      return [status, rest, text]
    })
  const triesElsewhere: Word = async talk => {
    for (const client of elsewhere(talk)) await resume(client)(talk)
  }
  conversation('with a token of somebody else exactly like with an unknown one', {
    ...tokens({}, { window: 60_000 }),
    endpoint: [hold],
    client: [
      ...[report(both), resume({ ...both, token: 'V1StGXR8_Z5jdHi6B-myT' }), triesElsewhere],
      // Whatever became of it since: used, and replaced by the next one.
      ...[report({ id: 3, token: 1, ...both }), report({ id: 4, token: 2, ...both })],
      triesElsewhere
    ],
    counts: { refusals: 9 },
    then: talk => {
      const [, forged, ...others] = answers(talk)
      others.splice(4, 2)
      expect(others).toEqual(Array(8).fill(forged))
    }
  })

  const at =
    (path: string, word: (more: TokenCall) => Word): Word =>
    async talk =>
      word({ url: talk.url + path })(talk)
  conversation('of another path, and not of another query', {
    ...SLOW,
    client: [at('/charge?a=1', report), at('/mail', resume), at('/charge?b=2', resume)],
    sees: [...given(1), ...refused('token-invalid'), 'json', 'token 2 of 2']
  })

  conversation('of another method', {
    ...{ ...SLOW, ...tokens({ methods: ['tools/call', 'other'] }) },
    client: [
      report,
      ...[send(talk => ({ ...withToken(2, tokensOf(talk)[0]!), method: 'other' })), end]
    ],
    sees: [...given(1), ...refused('method-changed')],
    hears: ONCE
  })

  const args = { year: 2025, parts: { b: 1, a: [2] } }
  const meta = { trace: 1 }
  conversation.each<[string, object, object?]>([
    ['another value', { ...args, year: 2024 }],
    ['one more', { ...args, more: null }],
    ['one less', { year: 2025 }],
    ['another order of a list', { year: 2025, parts: { b: 1, a: [2, 1] } }],
    ['another type', { ...args, year: '2025' }],
    ['another `_meta`', args, { trace: 2 }]
  ])('of other parameters: %s', (_name, other, otherMeta = meta) => ({
    ...SLOW,
    client: [
      ...[report({ args, meta }), resume({ args: other, meta: otherMeta })],
      // It has done no harm.
      resume({ args, meta })
    ],
    sees: [...given(1), ...refused('parameters-changed'), 'json', 'token 2 of 2'],
    hears: ONCE
  }))

  conversation('that has expired: nobody came with it in time', {
    ...{ ...SLOW, ...tokens({}, { resumeInterval: { max: 0.2 } }) },
    client: [report, closed, resume()],
    sees: [...given(1), ...refused('token-expired')]
  })

  conversation('that was completed long ago', {
    ...{ ...SLOW, ...tokens({}, { window: 3_600_000 }) },
    client: [
      ...[report, go, resume(), inAnHour(0.99), resume(), inAnHour(1.01), resume()],
      // In the end nobody remembers that it ever was.
      ...[inAnHour(1.01), resume()]
    ],
    sees: [
      ...[...given(1), ...DONE, ...DONE],
      ...[...refused('token-completed'), ...refused('token-invalid')]
    ],
    hears: ONCE
  })

  conversation('whose result nobody has fetched for as long as a call may go without a request', {
    ...{ ...SLOW, ...tokens({}, { window: 0, resumeInterval: { max: 3600 } }) },
    client: [report, go, closed, inAnHour(1.01), resume()],
    sees: [...given(1), ...refused('token-expired')]
  })

  conversation('in a batch, with all its requests', {
    ...SLOW,
    client: [
      report,
      ...[send(talk => [withToken(2, tokensOf(talk)[0]!), callTool(3, 'any')]), end]
    ],
    sees: [...given(1), ...refused('token-in-batch'), refusal(3, 'token-in-batch')],
    hears: ONCE
  })

  conversation('in a batch of its own', {
    ...SLOW,
    client: [send([withToken(1, 'x')]), end],
    hears: [],
    then: async ({ response }) =>
      expect(await response.json()).toEqual([refusal(1, 'token-in-batch')])
  })

  conversation.each([null, true, {}])('under an id that is none: %j', id => ({
    ...SLOW,
    client: [send(withToken(id, 'x')), end, send([withToken(id, 'x')]), end],
    sees: [...refused('token-invalid', null), ...refused('token-in-batch', null)],
    hears: [],
    counts: { refusals: 2 }
  }))

  const evil = { origin: 'https://evil.example' }
  conversation('from a page of a foreign origin, before any look-up', {
    ...{ ...SLOW, ...tokens({}, { allowedOrigins: ['https://app.example'] }) },
    client: [
      ...[report, resume(evil), resume({ token: 'x', ...evil })],
      ...[send(talk => [withToken(2, tokensOf(talk)[0]!), withToken(2, 'x')], evil), end],
      resume({ origin: 'https://app.example' })
    ],
    sees: [
      ...[...given(1), ...[1, 2, 3].map(() => '403 foreign-origin')],
      ...['json', 'token 2 of 2']
    ],
    hears: ONCE
  })

  conversation('in a session that the client has initialised anew', {
    ...{ ...SLOW, session: 'one' },
    client: [report, resume({ session: 'two' })],
    sees: [...given(1), ...refused('token-invalid')]
  })
})

describe('parameters of two requests count as the same', () => {
  const parts = { b: 1, a: [2] }
  conversation(
    'whatever the order of their members, and whatever their progress is to be reported with',
    {
      ...SLOW,
      client: [
        report({ args: { year: 1, parts }, meta: { a: 1, b: 2, progressToken: 1 } }),
        send(talk => ({
          ...request(2, 'tools/call', {
            _meta: { resumeToken: tokensOf(talk)[0], progressToken: 2, b: 2, a: 1 },
            ...{ arguments: { parts: { a: [2], b: 1 }, year: 1 }, name: 'any' }
          })
        })),
        end
      ],
      sees: [...given(1), 'json', 'token 2 of 2']
    }
  )

  conversation('with an empty `_meta`, and without any', {
    ...SLOW,
    client: [plain({ meta: {}, prefer: 'respond-async' }), resume()],
    sees: [...given(1), 'json', 'token 2 of 2']
  })
})
