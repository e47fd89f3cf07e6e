// A call that takes long: answered with tokens in the meantime, and with its result in the end.

import { describe, expect, it, jest } from '@jest/globals'
import { request, result, withEnvelope } from '../../helpers/mcp.js'
import { sleep } from '../../helpers/sleep.js'
import { closed, end, go, meanwhile, on, send } from '../../helpers/talk/client.js'
import { hold, json, resultIs } from '../../helpers/talk/endpoint.js'
import { conversation, talk } from '../../helpers/talk/index.js'
import { given, plain, report, SOON, TEXT, tokens } from './setup.js'

const SLOW = { ...tokens(), endpoint: [hold, json(TEXT)] }
const INTERIM = { content: [], _meta: { nextResumeToken: expect.stringMatching(/^[\w-]{21}$/) } }

describe('a request that asks for tokens', () => {
  conversation('gets its result, and no token, where that is ready in time', {
    ...tokens({ after: 5000 }),
    endpoint: [json(TEXT)],
    client: [report({ id: 7 })],
    sees: ['json', result(7, TEXT)]
  })

  conversation.each([
    ['a `resumeToken` in `_meta`', { token: null }],
    ['a wait in `_meta`', {}],
    ['`Prefer: respond-async`', { prefer: 'respond-async' }],
    ['`Prefer` among others', { prefer: 'rel=stream, Respond-Async; x=1, wait=60' }]
  ])('by %s gets tokens until the result is there, under its own ids', (_name, asked) => ({
    ...SLOW,
    client: [
      ...[plain({ id: 7, wait: SOON, ...asked }), report({ id: 8, token: 1 })],
      ...[meanwhile(report({ id: 'nine', token: 2, wait: SOON })), go, end]
    ],
    sees: ['json', result(7, INTERIM), 'json', 'token 2 of 8', 'json', result('nine', TEXT)],
    hears: ['tools/call']
  }))

  conversation('may leave the time to wait to the server', {
    ...SLOW,
    client: [plain({ wait: null })],
    sees: given(1)
  })

  conversation('may ask by `Prefer`, and gets `Preference-Applied`', {
    ...SLOW,
    client: [plain({ prefer: 'respond-async' }), report],
    sees: given(2),
    then: ({ wires }) => {
      const [first, other] = wires.map(({ response }) => response.headers)
      expect(first!['preference-applied']).toBe('respond-async')
      expect(first!['cache-control']).toBe('no-store')
      expect(other!['preference-applied']).toBeUndefined()
    }
  })

  conversation('reaches the endpoint without anything about tokens, and otherwise unchanged', {
    ...{ ...SLOW, auth: 'secret', headers: { 'x-tenant': 'acme' } },
    client: [
      report({ id: 7, args: { a: 1 }, meta: { trace: 1 }, wait: SOON }),
      plain({ args: { a: 1 }, prefer: 'respond-async' })
    ],
    then: ({ requests: [first, second] }) => {
      const params = { name: 'any', arguments: { a: 1 } }
      const id = expect.stringMatching(/^[\w-]{21}$/) as never as string
      const called = request(id, 'tools/call', { ...params, _meta: { trace: 1 } })
      expect(first!.message).toEqual(called)
      const { headers } = first!.req
      expect(headers).toMatchObject({ authorization: 'Bearer secret', 'x-tenant': 'acme' })
      expect(headers['prefer']).toBeUndefined()
      expect(second!.message.params).toEqual(params)
    }
  })

  const asking = { _meta: { resumeToken: null } }
  conversation.each([
    ['a bare result is asked for', request(7, 'tools/call', { name: 'any' }), tokens()],
    ['its method is not among them', request(7, 'other', asking), tokens()],
    ['they are off', request(7, 'tools/call', { name: 'any', ...asking }), tokens(false)]
  ])('goes to the endpoint unchanged where %s', (_name, message, world) => ({
    ...world,
    endpoint: [() => sleep(2 * SOON), json(TEXT)],
    client: [send(message), end],
    sees: ['json', result(7, TEXT)],
    then: ({ call }) => expect(call.message).toEqual(message)
  }))
})

describe('how long a request waits', () => {
  conversation('is what it asks for, in its head or in `_meta`', {
    ...tokens({ after: 20_000 }),
    endpoint: [hold],
    client: [
      plain({ prefer: 'respond-async, wait=0' }),
      plain({ prefer: 'wait="0", respond-async' }),
      ...[report({ wait: 1 }), report({ token: 3, wait: 2 })],
      report({ token: 4, prefer: 'respond-async, wait=0' })
    ],
    sees: given(5)
  })

  it('is never longer than a minute', async () => {
    const made = await talk({ ...tokens(), endpoint: [json(TEXT)] })
    const timers = jest.spyOn(globalThis, 'setTimeout')
    await made.plays(plain({ prefer: 'respond-async, wait=3600' }))
    const delays = timers.mock.calls.map(([, delay]) => delay)
    expect(delays.filter(delay => delay! > 50_000 && delay! <= 60_000)).toHaveLength(1)
    expect(delays).not.toContain(3_600_000)
  })

  conversation('is the server’s default where the time asked for is invalid', {
    ...SLOW,
    client: [
      ...['soon', '-1', '1e3'].map(time => plain({ prefer: `respond-async, wait=${time}` })),
      ...['1', -1, null, {}].map(wait => report({ wait }))
    ],
    sees: given(7)
  })
})

describe('stable tokens', () => {
  conversation('give the same answer again until the next one has been used', {
    ...SLOW,
    client: [
      ...[report, report({ id: 2, token: 1 }), report({ id: 3, token: 1 })],
      ...[report({ id: 4, token: 2 }), report({ id: 5, token: 1 })]
    ],
    sees: [
      ...['json', 'token 1', 'json', 'token 2 of 2', 'json', 'token 2 of 3'],
      ...['json', 'token 3 of 4', 'json', 'error -32602 token-superseded of 5']
    ],
    hears: ['tools/call']
  })

  conversation('give two requests at once the same answer', {
    ...SLOW,
    client: [
      ...[report, meanwhile(report({ id: 2, token: 1 })), report({ id: 3, token: 1 }), on(1, end)],
      ...[4, 5].map(id => meanwhile(report({ id, token: 2, wait: 5000 }))),
      // The impatient one is answered, and so are those who wait for the same.
      ...[report({ id: 6, token: 2, wait: 1 }), on(3, end), on(4, end)],
      ...[7, 8].map(id => meanwhile(report({ id, token: 3 }))),
      ...[go, end, on(6, end)]
    ],
    sees: [
      ...['json', 'token 1', 'json', 'token 2 of 2', 'json', 'token 2 of 3'],
      ...[4, 5, 6].flatMap(id => ['json', `token 3 of ${id}`]),
      ...[7, 8].flatMap(id => ['json', result(id, TEXT)])
    ],
    hears: ['tools/call']
  })

  conversation('give a result that came between two requests, any number of times', {
    ...SLOW,
    client: [report, go, closed, ...[2, 3, 4].map(id => report({ id, token: 1 }))],
    sees: [...given(1), ...[2, 3, 4].flatMap(id => ['json', result(id, TEXT)])]
  })
})

describe('a result', () => {
  conversation('keeps the numbers that JavaScript cannot hold', {
    ...tokens(),
    endpoint: [
      ({ res, message: { id } }) =>
        res
          .setHeader('Content-Type', 'application/json')
          .end(`{"jsonrpc":"2.0", "id" : "${id}", "result":{"n":12345678901234567890}}`)
    ],
    client: [report({ id: 5 })],
    then: ({ response: { text } }) =>
      expect(text).toBe('{"jsonrpc":"2.0", "id":5, "result":{"n":12345678901234567890}}')
  })

  conversation('that contains the id of its request keeps it', {
    ...tokens(),
    endpoint: [call => json({ structuredContent: { id: call.message.id } })(call, undefined!)],
    client: [report({ id: 5 })],
    sees: ({ call: { message } }) => [
      ...['json', result(5, { structuredContent: { id: message.id } })]
    ]
  })

  const INTERIMS = { 'prompts/get': { messages: [] }, 'resources/read': { contents: [] } }
  conversation.each(Object.entries({ ...INTERIMS, 'own/method': {} }))(
    'may be of any method that is named, such as %s',
    (method, interim) => ({
      ...tokens({ methods: [method] }),
      endpoint: [hold],
      client: [send(request(1, method, { _meta: { resumeToken: null } })), end],
      sees: ['json', result(1, { ...interim, _meta: INTERIM._meta })]
    })
  )

  conversation('in the meantime has the members that 2026-07-28 requires of every result', {
    ...{ ...tokens({ methods: ['tools/call', 'resources/read'] }), version: '2026-07-28' },
    endpoint: [hold],
    client: [
      report,
      // Where no header says it, the message does.
      send(
        withEnvelope(request(1, 'resources/read', { uri: 'x:y', _meta: { resumeToken: null } })),
        { headers: { 'mcp-protocol-version': undefined } }
      ),
      end
    ],
    sees: [
      ...['json', result(1, { ...INTERIM, resultType: 'complete' })],
      'json',
      result(1, {
        ...{ resultType: 'complete', contents: [], ttlMs: 0, cacheScope: 'private' },
        _meta: INTERIM._meta
      })
    ]
  })
})

describe('in a session', () => {
  conversation('the endpoint knows the call as one of it', {
    ...{ ...tokens(), session: 'one' },
    endpoint: [hold, resultIs(TEXT)],
    client: [report, go, report({ id: 2, token: 1 })],
    sees: [...given(1), 'json', result(2, TEXT)],
    then: ({ call }) => expect(call.req.headers['mcp-session-id']).toBe('one')
  })
})
