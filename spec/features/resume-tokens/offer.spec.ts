// Tokens that nobody asks for: the Resuming draft's own text, in which the server offers them.

import { describe, expect } from '@jest/globals'
import { callTool, initialize, request, result } from '../../helpers/mcp.js'
import { closed, end, go, meanwhile, on, post, send } from '../../helpers/talk/client.js'
import { hold, json, named, type Line } from '../../helpers/talk/endpoint.js'
import { conversation } from '../../helpers/talk/index.js'
import { given, plain, report, TEXT, tokens, tokensOf } from './setup.js'

const ALWAYS = tokens({ offer: 'always' })
const ALL = tokens({ offer: 'always', methods: 'all' })
const SLOW = { ...ALWAYS, endpoint: [hold, json(TEXT)] }

describe('where tokens are always offered', () => {
  const params = { param_str: 'value', param_num: 2 }
  const message = { jsonrpc: '2.0', id: 1, method: 'long_running_method', params }
  conversation('the example of the draft runs word for word', {
    ...ALL,
    endpoint: [hold, json({ done: true })],
    client: [
      // "The caller initiates a new long-running operation as usual."
      ...[send(message), end],
      meanwhile(
        send(talk => ({
          ...message,
          params: { ...params, _meta: { resumeToken: tokensOf(talk)[0] } }
        }))
      ),
      ...[go, end]
    ],
    // "The operation is considered complete when the server provides a response which does not
    // contain a `nextResumeToken`."
    sees: [
      ...['json', result(1, { _meta: { nextResumeToken: expect.any(String) } })],
      ...['json', result(1, { done: true })]
    ],
    hears: ['long_running_method']
  })

  conversation('a request that is answered in time has its result, as it was written', {
    ...tokens({ offer: 'always', after: 5000 }),
    endpoint: [json(TEXT)],
    client: [plain({ id: 7 })],
    sees: ['json', result(7, TEXT)]
  })

  conversation('only the methods of the option get them', {
    ...ALWAYS,
    endpoint: [[hold], [json({ messages: [] })]],
    client: [plain(), send(request(2, 'prompts/get', { name: 'x' })), end],
    sees: [...given(1), 'json', result(2, { messages: [] })],
    then: ({ call: { message } }) => expect(message.id).toBe(2)
  })

  const begun: Line = named('begun', (call, run) => {
    call.res.setHeader('mcp-session-id', 'one')
    return json({ protocolVersion: '2025-11-25' })(call, run)
  })
  conversation('`initialize` goes to the endpoint unchanged', {
    ...ALL,
    endpoint: [begun],
    client: [post({ message: initialize('2025-11-25') }), end],
    sees: ['json', result('initialize', { protocolVersion: '2025-11-25' })],
    then: ({ response: { headers } }) => expect(headers['mcp-session-id']).toBe('one')
  })

  conversation('a batch goes to the endpoint unchanged', {
    ...ALL,
    endpoint: [({ res }) => res.end()],
    client: [send([callTool(1, 'any')]), end],
    then: ({ requests }) => expect(requests[0]!.message).toEqual([callTool(1, 'any')])
  })

  describe('"servers SHOULD ensure that resume tokens are stable"', () => {
    conversation(
      'a token that nobody asked for gives the same answer each time, whether its call goes on or not',
      {
        ...SLOW,
        client: [
          ...[plain(), report({ id: 2, token: 1 })],
          // The answer was lost: the same request, later and from two places at once.
          ...[meanwhile(report({ id: 3, token: 1 })), report({ id: 4, token: 1 }), on(2, end)],
          ...[go, closed, report({ id: 5, token: 1 })],
          ...[report({ id: 6, token: 2 }), report({ id: 7, token: 2 })]
        ],
        sees: [
          ...['json', 'token 1', ...[2, 3, 4, 5].flatMap(id => ['json', `token 2 of ${id}`])],
          ...[6, 7].flatMap(id => ['json', result(id, TEXT)])
        ],
        hears: ['tools/call']
      }
    )

    conversation('it holds from the first answer on, and until the next one is used', {
      ...SLOW,
      client: [plain(), report({ token: 1 }), report({ token: 2 }), report({ token: 1 })],
      sees: [...given(3), 'json', 'error -32602 token-superseded']
    })
  })
})
