// Option `handoff`: to whom streams are handed off.

import { describe, expect, it } from '@jest/globals'
import { callTool } from '../../helpers/mcp.js'
import { answer, counts, cut, end, on, post, reply } from '../../helpers/talk/client.js'
import { resume, take, wait, yes } from '../../helpers/talk/client.js'
import { ask, result } from '../../helpers/talk/endpoint.js'
import { conversation, primer, talk, type Talk } from '../../helpers/talk/index.js'
import { QUICK } from './asking.js'
import { SepClient } from './sep-client.js'

const ASKING = { session: 's', endpoint: [ask('a'), result] }
const ANNOUNCED = { prefer: 'rel=stream' }
const applied = ({ response }: Talk) => response.headers['preference-applied']

describe('handoff: never', () => {
  const WORLD = { ...ASKING, options: { ...QUICK, handoff: 'never' as const, handoffAfter: 1 } }

  describe.each([
    ['announced', ANNOUNCED],
    ['unannounced', {}]
  ])('of an %s client', (_name, client) => {
    conversation('keeps the connection, and takes answers at the endpoint only', {
      ...{ ...WORLD, ...client },
      client: [
        ...[post, take(2), wait(30), counts({ connections: 1, waiting: 0 }), answer('a'), end],
        async ({ response, requests }) => {
          expect(response.headers.allow).toBe('GET, HEAD, DELETE, OPTIONS')
          expect(await response.json()).toMatchObject({ id: null, error: { code: -31000 } })
          expect(requests).toHaveLength(1)
        },
        ...[reply('a'), on(0, end)]
      ],
      sees: [primer, 'asks a', 'result', 'end', '405 method-not-allowed', '202']
    })
  })

  conversation('tells a client that announces itself, which would wait for a 204', {
    ...WORLD,
    client: [
      ...[post(ANNOUNCED), (t: Talk) => expect(applied(t)).toBe('rel=stream; handoff=never')],
      ...[post({ id: 2 }), (t: Talk) => expect(applied(t)).toBeUndefined()]
    ]
  })

  conversation('lets a client that has fetched a stream URL follow it, and no more', {
    ...{ ...WORLD, ...ANNOUNCED },
    client: [post, take(2), cut, resume, take(1), wait(20), counts({ connections: 1 })],
    sees: [primer, 'asks a', primer]
  })
})

describe('handoff: always', () => {
  it.each(['2025-03-26', '2025-06-18', '2025-11-25'])(
    'a client that says nothing is handed off to, at %s',
    async version => {
      const made = await talk({ ...ASKING, options: { ...QUICK, handoff: 'always' } })
      const headers = { 'mcp-protocol-version': version }
      const client = new SepClient(made.url, { headers, answer: ({ id }) => yes(id) })
      const { response, trace } = await client.call(callTool(1, 'any'))
      expect(response.result).toEqual({})
      expect(trace).toEqual(['call 200', 'GET 204', 'answers 200'])
      expect(made.requests.filter(({ message }) => message.id === 'a')).toHaveLength(1)
    }
  )
})

describe.each(['auto', undefined] as const)('handoff: %s', handoff => {
  conversation('applies the preference of a client that announces itself, in every turn', {
    ...ASKING,
    options: { ...QUICK, handoff },
    client: [
      ...[post(ANNOUNCED), end, (t: Talk) => expect(applied(t)).toBe('rel=stream')],
      talk => talk.send({ url: talk.link, body: [yes('a')], ...ANNOUNCED }),
      talk => expect(applied(talk)).toBe('rel=stream'),
      ...[
        on(0, answer('a')),
        (t: Talk) => expect([t.response.status, applied(t)]).toEqual([200, undefined])
      ]
    ]
  })
})
