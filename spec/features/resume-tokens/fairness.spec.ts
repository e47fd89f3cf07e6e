// When one owner takes all that there is: tokens and results of others stay, and others still get
// tokens.

import { describe } from '@jest/globals'
import { result } from '../../helpers/mcp.js'
import { counts, go, type Word } from '../../helpers/talk/client.js'
import { hold, json } from '../../helpers/talk/endpoint.js'
import { conversation, upTo } from '../../helpers/talk/index.js'
import { report, TEXT, tokens } from './setup.js'

const MAX = 9
const BIG = { content: [{ type: 'text', text: 'x'.repeat(2000) }] }
const begin = (auth?: string): Word => report({ auth, wait: 0 })
const collect = (auth: string | undefined, token: number): Word => report({ auth, token })
/** A call of somebody's, the nth of all, and its result. */
const whole = (auth: string | undefined, n: number): Word[] => [begin(auth), go, collect(auth, n)]
const isKept = ['json', result(1, TEXT)]

describe('one owner', () => {
  conversation.each([
    ['another', 'a'],
    ['nobody in particular', undefined]
  ])('keeps its results, however many calls %s makes', (_name, flooder) => ({
    ...tokens({}, { maxStreams: MAX }),
    endpoint: [hold, json(TEXT)],
    client: [
      ...whole('b', 1),
      ...upTo(2 * MAX + 1).flatMap(n => whole(flooder, n + 1)),
      ...[collect('b', 1), collect(flooder, 2)]
    ],
    sees: [
      ...upTo(2 * MAX + 2).flatMap(n => ['json', `token ${n}`, ...isKept]),
      ...[...isKept, 'json', 'error -32602 token-invalid']
    ]
  }))

  conversation('keeps its results, however large those of another are', {
    ...tokens({}, { maxStreams: MAX, maxBytes: 40_000, maxStreamBytes: 5000 }),
    endpoint: [
      [hold, json(TEXT)],
      [hold, json(BIG)]
    ],
    client: [...whole('b', 1), ...upTo(MAX - 2).flatMap(n => whole('a', n + 1)), collect('b', 1)],
    sees: [
      ...['json', 'token 1', ...isKept],
      ...upTo(MAX - 2).flatMap(n => ['json', `token ${n + 1}`, 'json', result(1, BIG)]),
      ...isKept
    ]
  })

  conversation('gets tokens while as many calls of another run as may', {
    ...tokens({}, { maxStreams: MAX }),
    endpoint: [...upTo(MAX - 1).map(() => [hold]), [json(TEXT)], [hold]],
    client: [
      ...upTo(MAX).map(() => begin('a')),
      ...[counts({ calls: MAX - 1, refusals: 1 }), begin('b')]
    ],
    sees: [
      ...upTo(MAX - 1).flatMap(n => ['json', `token ${n}`]),
      ...[...isKept, 'json', `token ${MAX}`]
    ]
  })
})
