// Results in pages: each answer in the meantime carries a part of the whole.

import { describe, expect } from '@jest/globals'
import { currentStream, type CurrentStream, type McpStreams } from '../../../lib/index.js'
import { gate } from '../../helpers/gate.js'
import { result } from '../../helpers/mcp.js'
import { sleep } from '../../helpers/sleep.js'
import { go, meanwhile, on, end, type Word } from '../../helpers/talk/client.js'
import { hold, json, resultIs, turn, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, type Talk } from '../../helpers/talk/index.js'
import { plain, report, TEXT, tokens, tokensOf } from './setup.js'

const SLOW = tokens({ after: 5000 })
const page = (n: number) => ({ content: [{ type: 'text', text: `page ${n}` }] })
const part = (id: number, value: object) => [
  ...['json', result(id, { ...value, _meta: expect.anything() })]
]
/** What `partial` has returned, in each conversation. */
let returned: unknown[]
const begin: Line = () => void (returned = [])
const partial =
  (value: unknown): Line =>
  () => {
    try {
      returned.push(currentStream()!.partial(value as object))
    } catch (error) {
      returned.push(error)
    }
  }
const hasReturned =
  (...expected: unknown[]) =>
  (): void =>
    expect(returned).toEqual(expected)

describe('currentStream().partial', () => {
  conversation('gives parts to a client that uses tokens, in order, before the result', {
    ...SLOW,
    endpoint: [begin, partial(page(1)), turn, partial(page(2)), partial(page(3)), json(page(4))],
    client: [report, ...[1, 2, 3].map(n => report({ id: n + 1, token: n }))],
    sees: [...[1, 2, 3].flatMap(n => part(n, page(n))), 'json', result(4, page(4))],
    hears: ['tools/call'],
    then: hasReturned(true, true, true)
  })

  const first = { ...page(1), structuredContent: { n: 1 } }
  conversation('gives a part again until the next token has been used', {
    ...SLOW,
    endpoint: [begin, partial({ ...first, _meta: { of: 2 } }), json(page(2))],
    client: [
      report({ wait: 0 }),
      ...[meanwhile(report({ id: 2, token: 1 })), report({ id: 3, token: 1 }), on(1, end)]
    ],
    then: talk => {
      const [, one, other] = talk.sees().filter(seen => seen !== 'json') as { result: object }[]
      // The first answer may have carried it already; then both get what follows.
      expect(one!.result).toEqual(other!.result)
      const again = { ...first, _meta: { of: 2, nextResumeToken: expect.any(String) } }
      expect([again, page(2)]).toContainEqual(one!.result)
    }
  })

  conversation('answers a waiting request at once', {
    ...SLOW,
    endpoint: [begin, partial(page(1)), hold, partial(page(2)), hold],
    client: [report, meanwhile(report({ id: 2, token: 1 })), go, end],
    sees: [...part(1, page(1)), ...part(2, page(2))]
  })

  conversation('returns false where nobody collects parts', {
    ...SLOW,
    endpoint: [begin, partial(page(1)), resultIs(TEXT)],
    client: [plain()],
    then: hasReturned(false)
  })

  const ended = gate<boolean>()
  conversation('returns false when the call is over', {
    ...SLOW,
    endpoint: [
      ({ res }) => {
        const stream = currentStream()!
        res.once('close', () => setImmediate(() => ended.open(stream.partial(page(1)))))
      },
      json(TEXT)
    ],
    client: [report],
    sees: ['json', result(1, TEXT)],
    then: async () => expect(await ended.opened).toBe(false)
  })

  conversation.each<[string, unknown]>([
    ['a string', 'page'],
    ['nothing', undefined],
    ['a list', [page(1)]],
    ['null', null],
    ['what calls itself a string in JSON', { toJSON: () => 'page' }],
    ['what JSON leaves out', { toJSON: () => undefined }]
  ])('throws for %s, with tokens and without', (_name, value) => ({
    ...SLOW,
    endpoint: [
      [begin, partial(value), resultIs(TEXT)],
      [partial(value), resultIs(TEXT)]
    ],
    client: [report, plain()],
    then: hasReturned(expect.any(TypeError), expect.any(TypeError))
  }))

  const collect: Word = async talk => {
    for (let n = 1; tokensOf(talk).length === n; n++) await report({ id: 2, token: n })(talk)
  }
  const texts = (talk: Talk): (string | undefined)[] =>
    talk
      .sees()
      .filter(seen => seen !== 'json')
      .map(seen => (seen as { result?: typeof TEXT }).result?.content[0]!.text)
  conversation('fails the call where there is no room, after the parts that are kept', {
    ...tokens({ after: 5000 }, { maxStreamBytes: 120 }),
    // The first one is on its way at once.
    endpoint: [
      ...[begin, ...[1, 2, 3, 4].map(n => partial(page(n)))],
      () => {
        const { state, signal } = currentStream()!
        expect([state, signal.aborted]).toEqual(['failed', true])
      },
      hold
    ],
    client: [report, collect],
    hears: ['tools/call', 'close'],
    then: talk => {
      const kept = returned.flatMap((ok, i) => (ok === true ? `page ${i + 1}` : []))
      expect(texts(talk)).toEqual([...kept, undefined])
      expect(returned).toContain(false)
      expect(talk.words().at(-1)).toBe('error overflow of 2')
    }
  })
})

describe('currentStream() of a call with tokens', () => {
  let stream: CurrentStream
  let own: McpStreams
  conversation('tells how the call is doing, and ends a connection with a token', {
    ...SLOW,
    endpoint: [
      () => {
        stream = currentStream()!
        expect(own.current()).toBe(stream)
        expect(stream).toMatchObject({ state: 'live', id: expect.stringMatching(/^[\w-]{21}$/) })
        stream.disconnect({ retry: 5 })
        expect(() => stream.disconnect({ retry: -1 })).toThrow(TypeError)
      },
      () => sleep(20),
      json(TEXT)
    ],
    client: [({ streams }) => void (own = streams), report, report({ id: 2, token: 1 })],
    sees: ['json', 'token 1', 'json', result(2, TEXT)],
    hears: ['tools/call'],
    then: talk => {
      expect(stream.signal.aborted).toBe(false)
      expect(stream.id).not.toBe(tokensOf(talk)[0])
    }
  })
})
