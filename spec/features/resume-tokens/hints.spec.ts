// Duration hints: what the server knows about how long its tools take, in `tools/list`.

import { describe, expect } from '@jest/globals'
import { request, result } from '../../helpers/mcp.js'
import { arrived, closed, cut, end, go, meanwhile, send } from '../../helpers/talk/client.js'
import { hold, json, note, resultIs, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer } from '../../helpers/talk/index.js'
import { report, tokens, tokensOf } from './setup.js'

const hints = {
  report: { typical: 30_000, max: 120_000 },
  own: { typical: 1 },
  ['__proto__x']: { max: 1 }
}
const TOOLS = [
  { name: 'report', inputSchema: { type: 'object' }, _meta: { icon: 'x' } },
  { name: 'quick', inputSchema: { type: 'object' } },
  { name: 'own', _meta: { durationHint: { typical: 2 } } }
]
const HINTED = [
  { ...TOOLS[0], _meta: { icon: 'x', durationHint: { typical: 30_000, max: 120_000 } } },
  TOOLS[1],
  TOOLS[2]
]

const DEEP = '['.repeat(20_000) + ']'.repeat(20_000)
const LIST = request(4, 'tools/list', { cursor: 'x' })

describe('resumeTokens.hints', () => {
  conversation('are added to the tools that they are about, whoever asks', {
    ...tokens({ hints }),
    endpoint: [json({ tools: TOOLS, nextCursor: 'y' })],
    client: [send(LIST), end],
    sees: ['json', result(4, { tools: HINTED, nextCursor: 'y' })],
    // The very request of the client, on its own response: the server is not run a second time.
    then: ({ requests }) => expect(requests.map(({ message }) => message)).toEqual([LIST])
  })

  conversation('are added to an event stream, too, behind what else is in it', {
    ...tokens({ hints }),
    endpoint: [note(1), resultIs({ tools: TOOLS })],
    client: [send(LIST), end],
    sees: [primer, 1, result(4, { tools: HINTED }), 'end']
  })

  conversation.each<[string, Line, unknown]>([
    ['an error', call => call.error(-32601, 'no tools'), 'error -32601 of 4'],
    ['a result without tools', resultIs({ tools: 'none' }), result(4, { tools: 'none' })]
  ])('leave %s as it is', (_name, line, answer) => ({
    ...tokens({ hints }),
    endpoint: [line],
    client: [send(LIST), end],
    sees: [primer, answer, 'end']
  }))

  conversation('let the endpoint see that its client has gone', {
    ...tokens({ hints }),
    endpoint: [hold],
    client: [meanwhile(send(LIST)), arrived(1), cut, closed]
  })

  const list = (id: number, token: unknown) =>
    report({ message: request(id, 'tools/list', { _meta: { resumeToken: token } }) })
  conversation('are in a list that is collected with tokens, too', {
    ...tokens({ hints, methods: ['tools/list'] }),
    endpoint: [hold, json({ tools: TOOLS })],
    client: [list(1, null), go, talk => list(2, tokensOf(talk)[0])(talk)],
    sees: [
      ...['json', result(1, { tools: [], _meta: expect.anything() })],
      ...['json', result(2, { tools: HINTED })]
    ]
  })

  const OWN = JSON.stringify(result(1, { tools: TOOLS }))
  conversation.each([
    ['is one of a batch', JSON.stringify([request(1, 'tools/list')])],
    [
      'is nested too deeply to be written again',
      `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":${DEEP}}}`
    ]
  ])('do not change the answer to a request that %s', (_name, body) => ({
    ...tokens({ hints }),
    endpoint: [({ res }) => res.writeHead(200, { 'Content-Type': 'application/json' }).end(OWN)],
    client: [send(() => body), end],
    sees: ['json', result(1, { tools: TOOLS })]
  }))

  conversation('leave `tools/list` alone where there are none', {
    ...tokens(),
    endpoint: [json({ tools: TOOLS })],
    client: [send(LIST), end],
    sees: ['json', result(4, { tools: TOOLS })],
    then: ({ call: { message } }) => expect(message.id).toBe(4)
  })
})
