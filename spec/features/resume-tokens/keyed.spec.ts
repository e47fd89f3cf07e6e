// The first request has no token yet: where its answer is lost, its `Idempotency-Key` stands for
// it.

import { describe, expect } from '@jest/globals'
import { result } from '../../helpers/mcp.js'
import { arrived, closed, cut, end, go, meanwhile } from '../../helpers/talk/client.js'
import { post, request, until, type Word } from '../../helpers/talk/client.js'
import { hold, json, note } from '../../helpers/talk/endpoint.js'
import { conversation } from '../../helpers/talk/index.js'
import { given, plain, report, TEXT, tokens } from './setup.js'

const KEY = 'a key that nobody guesses'
const keyed = { headers: { 'idempotency-key': KEY } }
const SLOW = { ...tokens(), endpoint: [hold, json(TEXT)] }

describe('a first request that is sent again under its key', () => {
  conversation('gets the same token, whether its client was there for the first or not', {
    ...SLOW,
    client: [
      ...[meanwhile(report(keyed)), arrived(1), cut, report(keyed), report(keyed)],
      ...[go, report({ id: 2, token: 1 })]
    ],
    sees: ['json', 'token 1', 'json', 'token 1', 'json', result(2, TEXT)],
    hears: ['tools/call']
  })

  conversation('gets the same result, where that was there in time', {
    ...tokens({ after: 5000 }),
    endpoint: [json(TEXT)],
    client: [report(keyed), report(keyed)],
    sees: ['json', result(1, TEXT), 'json', result(1, TEXT)],
    hears: ['tools/call']
  })

  conversation('is refused for another body', {
    ...SLOW,
    client: [report(keyed), report({ ...keyed, args: { other: 1 } })],
    sees: [...given(1), '409 key-reused'],
    hears: ['tools/call']
  })

  conversation('is cancelled by that key while there is no answer: the endpoint is told', {
    ...{ ...tokens({ after: 20_000 }), session: 'one' },
    endpoint: [hold],
    client: [
      ...[meanwhile(report(keyed)), arrived(1), cut],
      ({ call }) => expect(call.isClosed).toBe(false),
      request('DELETE', ({ url }) => ({ url: `${url}?stream=${encodeURIComponent(KEY)}` })),
      ...[end, closed],
      until(({ requests, call }) =>
        requests.some(({ message }) => message?.params?.requestId === call.message.id)
      )
    ]
  })

  conversation('may say both: that it follows links, and that it takes tokens', {
    ...SLOW,
    client: [plain({ ...keyed, prefer: 'rel=stream, respond-async' })],
    sees: given(1),
    then: ({ response: { headers } }) =>
      expect(headers['preference-applied']).toBe('rel=stream, respond-async')
  })

  conversation.each([
    ['response', 200],
    ['refusal', 403]
  ])(
    'gets `Preference-Applied: rel=stream` itself: not the request that fetches the %s',
    (_name, status) => ({
      ...tokens(),
      endpoint: [
        hold,
        ({ res, message }) => {
          res.setHeader('X-Quota', '7').writeHead(status, { 'Content-Type': 'application/json' })
          res.end(JSON.stringify(result(message.id, TEXT)))
        }
      ],
      client: [report({ ...keyed, prefer: 'rel=stream' }), go, report({ token: 1 })],
      then: ({ wires: [first, last] }) => {
        expect(first!.response.headers['preference-applied']).toBe('rel=stream')
        expect(last!.response).toMatchObject({ status, headers: { 'x-quota': '7' } })
        expect(last!.response.headers).not.toHaveProperty('preference-applied')
      }
    })
  )
})

describe('a first request whose events nobody can come back to', () => {
  const isGone = until(({ call }) => call.req.socket.destroyed)
  const hasBegun = until(({ wire }) => wire.response !== undefined)
  const leaves: Word = ({ response }) => response.destroy()
  const hasNoLink: Word = ({ response: { headers } }) =>
    expect([headers.link, headers['preference-applied']]).toEqual([undefined, undefined])
  conversation.each(['before', 'after'])(
    'ends its call when its client leaves %s the first',
    when => ({
      ...tokens({ after: 20_000 }, { maxStreams: 1 }),
      endpoint: [
        [note(1), hold],
        [hold, note(1), hold]
      ],
      client: [
        ...[post({ id: 9 }), meanwhile(report({ ...keyed, prefer: 'rel=stream' })), arrived(2)],
        ...(when === 'after' ? [go, hasBegun, hasNoLink, leaves] : [cut, isGone, go]),
        closed
      ],
      counts: { calls: 0, keyed: 0 }
    })
  )
})

describe('a request with a token', () => {
  conversation('that is sent again under its key gets the same answer', {
    ...SLOW,
    client: [report, ...[1, 2].map(() => report({ ...keyed, id: 2, token: 1 }))],
    sees: [...given(1), 'json', 'token 2 of 2', 'json', 'token 2 of 2'],
    hears: ['tools/call']
  })
})
