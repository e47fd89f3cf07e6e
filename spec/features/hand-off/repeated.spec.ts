// Answers that come more than once: however and wherever they are sent again, the endpoint has each
// once, and the client its next turn.

import { beforeEach, describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import type { Server } from 'node:http'
import { gate } from '../../helpers/gate.js'
import { happenings } from '../../helpers/happenings.js'
import {
  callTool,
  ended,
  get,
  headersFor,
  initializeSession,
  notification,
  post
} from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { ANNOUNCED, askingEndpoint, type AskingOptions, elicitation, QUICK, yes } from './asking.js'

const gist = (stream: OpenStream): Json[] =>
  stream.messages().map(({ id, params }) => id ?? params.data)
const linkOf = (stream: OpenStream, url: string): string =>
  new URL(/<([^<>]*)>; rel="stream"/.exec(String(stream.headers.link))![1]!, url).href

describe.each<[name: string, session: string | undefined]>([
  ['with a session', 'the-session'],
  ['without a session', undefined]
])('in a call %s', (_name, session) => {
  let url: string
  let headers: Record<string, string>
  let endpoint: ReturnType<typeof askingEndpoint>
  let server: Server
  let stats: () => { waiting: number; connections: number; resumes: number }
  /** Held back by the endpoint: what it says to an answer. */
  let onAnswer: (id: Json) => unknown = () => {}
  let first: OpenStream

  beforeEach(async () => {
    onAnswer = () => {}
    endpoint = askingEndpoint(
      async (call, ask) => {
        await Promise.all([ask('a'), ask('b')])
        call.emit(notification('notifications/message', { data: 'note' }))
        await ask('c')
        call.result({ done: true })
      },
      { ...(session !== undefined && { session }), onAnswer: call => onAnswer(call.message.id) }
    )
    const served = await serve(endpoint, QUICK)
    url = served.url
    server = served.server
    stats = () => served.streams.stats()
    headers =
      session === undefined
        ? ANNOUNCED
        : (await initializeSession(url, '2025-11-25', ANNOUNCED)).headers
    first = await post(url, callTool(1, 'any'), headers)
    await first.ended
    expect(gist(first)).toEqual(['a', 'b'])
    expect(
      (await get(linkOf(first, url), { ...headers, 'last-event-id': first.blocks.at(-1)!.id! }))
        .status
    ).toBe(204)
  })

  const answer = (...ids: string[]) => ids.map(id => yes(id))
  const seen = () => endpoint.answers.map(({ message }) => message.id)
  const handOver = async (link: string, body: Json, own = {}): Promise<OpenStream> => {
    const response = await post(link, body, { ...headers, ...own })
    expect(response.status).toBe(200)
    return response
  }

  it('the same POST again gets the same next turn, while the stream waits for the one after it', async () => {
    const link = linkOf(first, url)
    const second = await handOver(link, answer('a', 'b'))
    expect(await second.ended).toBe('end')
    for (let i = 0; i < 3; i++) {
      const again = await handOver(link, answer('a', 'b'))
      // It ends too: whoever has lost the turn must hear that it is to answer.
      expect(await again.ended).toBe('end')
      expect(gist(again)).toEqual(['note', 'c'])
      expect(again.headers.link).toBe(second.headers.link)
      expect(again.headers['content-type']).toBe(second.headers['content-type'])
    }
    expect(seen()).toEqual(['a', 'b'])
    expect(stats()).toMatchObject({ waiting: 1, connections: 0 })
  })

  it('the same POST again gets the rest of the call, once that is over', async () => {
    const second = await ended(handOver(linkOf(first, url), answer('a', 'b')))
    const third = await ended(handOver(linkOf(second, url), answer('c')))
    expect(third.messages()).toMatchObject([{ id: 1, result: { done: true } }])
    for (const [link, ids, expected] of [
      [linkOf(second, url), ['c'], [1]],
      [linkOf(first, url), ['a', 'b'], ['note', 'c', 1]]
    ] as const) {
      const again = await ended(handOver(link, answer(...ids)))
      expect(gist(again)).toEqual(expected)
    }
    expect(seen()).toEqual(['a', 'b', 'c'])
  })

  it('a second answer to one question is ignored, whatever it says', async () => {
    await ended(handOver(linkOf(first, url), [yes('a', 'Ada'), yes('b', 'Ada')]))
    const again = await ended(
      handOver(linkOf(first, url), [yes('a', 'Eve'), { ...yes('b'), result: undefined, error: {} }])
    )
    expect(gist(again)).toEqual(['note', 'c'])
    expect(endpoint.answers.map(({ message }) => message.result.content.name)).toEqual([
      'Ada',
      'Ada'
    ])
  })

  it('two connections at once: each answer reaches the endpoint once, and both get the turn', async () => {
    const answered = gate()
    onAnswer = () => answered.opened
    const link = linkOf(first, url)
    const both = [handOver(link, answer('a', 'b')), handOver(link, answer('b', 'a'))]
    await endpoint.answers.nth(2)
    answered.open()
    const responses = await Promise.all(both)
    for (const response of responses) expect(await response.ended).toBe('end')
    expect(seen().sort()).toEqual(['a', 'b'])
    // The newest follows the stream to the end of the turn; the other has made way, or has it whole
    // as well.
    const gists = responses.map(gist)
    expect(gists).toContainEqual(['note', 'c'])
    for (const some of gists) expect(['note', 'c'].slice(0, some.length)).toEqual(some)
    expect(stats()).toMatchObject({ waiting: 1, connections: 0 })
  })

  it('a repetition of answers that are on their way to the endpoint waits for its verdict', async () => {
    const answered = gate()
    onAnswer = () => answered.opened
    const link = linkOf(first, url)
    const one = handOver(link, answer('a', 'b'))
    await endpoint.answers.nth(1)
    const arrived = once(server, 'request')
    const other = handOver(link, answer('a', 'b'))
    await arrived
    for (let i = 0; i < 20; i++) await new Promise(setImmediate)
    expect(seen()).toEqual(['a'])
    answered.open()
    for (const response of await Promise.all([one, other])) expect(await response.ended).toBe('end')
    expect(seen()).toEqual(['a', 'b'])
  })

  it('a client that leaves while the endpoint takes its answers finds them taken', async () => {
    const answered = gate()
    onAnswer = () => answered.opened
    const link = linkOf(first, url)
    const leave = new AbortController()
    const body = JSON.stringify(answer('a', 'b'))
    const lost = fetch(link, { method: 'POST', body, headers, signal: leave.signal })
    await endpoint.answers.nth(1)
    leave.abort()
    await expect(lost).rejects.toThrow()
    const again = handOver(link, answer('a', 'b'))
    answered.open()
    const response = await ended(again)
    expect(gist(response)).toContain('c')
    expect(seen()).toEqual(['a', 'b'])
  })

  it('an answer that the endpoint has refused is offered again, and only that', async () => {
    let isRefusing = true
    onAnswer = id => {
      if (id === 'b' && isRefusing) endpoint.answers.at(-1)!.res.writeHead(400).end()
    }
    const link = linkOf(first, url)
    expect((await post(link, answer('a', 'b'), headers)).status).toBe(400)
    expect((await post(link, answer('a', 'b'), headers)).status).toBe(400)
    isRefusing = false
    const second = await ended(handOver(link, answer('a', 'b')))
    expect(gist(second)).toEqual(['note', 'c'])
    expect(seen()).toEqual(['a', 'b', 'b', 'b'])
  })

  it('answers one by one: the stream goes on waiting for the others', async () => {
    const waiting = happenings('waiting')
    const part = await handOver(linkOf(first, url), answer('b'))
    expect(await part.ended).toBe('end')
    expect(gist(part)).toEqual([])
    await waiting.nth(1)
    const id = part.blocks.at(-1)!.id!
    expect((await get(linkOf(part, url), { ...headers, 'last-event-id': id })).status).toBe(204)
    const rest = await ended(handOver(linkOf(part, url), answer('a')))
    expect(gist(rest)).toEqual(['note', 'c'])
    expect(seen()).toEqual(['b', 'a'])
  })

  it('answers to the URL of an earlier turn are as good', async () => {
    await ended(handOver(linkOf(first, url), answer('a', 'b')))
    const third = await ended(handOver(linkOf(first, url), answer('c')))
    expect(gist(third)).toEqual([1])
    expect(seen()).toEqual(['a', 'b', 'c'])
    const again = await ended(handOver(linkOf(first, url), answer('c')))
    expect(gist(again)).toEqual([1])
  })

  it('a client goes on from the cursor that it names', async () => {
    const second = await ended(handOver(linkOf(first, url), answer('a', 'b')))
    const noteId = second.blocks.find(({ data }) => data?.includes('note'))!.id!
    const again = await ended(
      handOver(linkOf(first, url), answer('a', 'b'), { 'last-event-id': noteId })
    )
    expect(gist(again)).toEqual(['c'])
  })

  it('the URL of a turn begins with that turn, for a client without a cursor', async () => {
    const second = await ended(handOver(linkOf(first, url), answer('a', 'b')))
    const link = linkOf(second, url)
    const again = await get(link, headers)
    expect(await again.ended).toBe('end')
    expect([again.status, gist(again)]).toEqual([200, ['note', 'c']])
    expect((await get(link, headers)).status).toBe(204)
  })
})

describe('an answer that comes to the stream URL and to the endpoint', () => {
  const start = async (onAnswer: AskingOptions['onAnswer'] = () => {}) => {
    const endpoint = askingEndpoint(
      async (call, ask) => {
        await ask(0)
        call.emit(notification('notifications/message', { data: 'note' }))
        await ask('next')
        call.result()
      },
      { session: 'a-session', onAnswer }
    )
    const served = await serve(endpoint, QUICK)
    const { headers } = await initializeSession(served.url, '2025-11-25', ANNOUNCED)
    const first = await ended(post(served.url, callTool(1, 'any'), headers))
    return { ...served, endpoint, headers, first, link: linkOf(first, served.url) }
  }

  it('is accepted at the endpoint after a hand-over, and does not reach it again', async () => {
    const { url, endpoint, headers, link } = await start()
    await ended(post(link, [yes(0)], headers))
    for (let i = 0; i < 2; i++) expect((await post(url, yes(0), headers)).status).toBe(202)
    expect(endpoint.answers).toHaveLength(1)
    // Any other answer does.
    expect((await post(url, yes('other'), headers)).status).toBe(202)
    expect((await post(url, yes('0'), headers)).status).toBe(202)
    expect(endpoint.answers).toHaveLength(3)
  })

  it.each<[name: string, say: NonNullable<AskingOptions['onAnswer']>]>([
    ['breaks off behind its head', ({ res }) => (res.writeHead(202).flushHeaders(), res.destroy())],
    ['says more than anybody reads', ({ res }) => res.writeHead(202).end('x'.repeat(1024 * 1024))]
  ])('is not given twice to an endpoint that %s', async (_name, say) => {
    const { url, endpoint, headers, link } = await start(say)
    const second = await post(link, [yes(0)], headers)
    expect(second.status).toBe(200)
    second.destroy()
    expect((await post(url, yes(0), headers)).status).toBe(202)
    expect(endpoint.answers).toHaveLength(1)
  })

  it('is not withheld from the endpoint for another user, or without the session', async () => {
    const { url, endpoint, headers, link } = await start()
    await ended(post(link, [yes(0)], headers))
    await post(url, yes(0), { ...headers, ...headersFor({ auth: 'somebody else' }) })
    await post(url, yes(0), ANNOUNCED)
    expect(endpoint.answers).toHaveLength(3)
  })

  it('is not given to the endpoint again after a plain POST of it', async () => {
    const { url, endpoint, headers, link } = await start()
    const waiting = happenings('waiting')
    expect((await post(url, yes(0), headers)).status).toBe(202)
    // For the answer to what it asks next.
    await waiting.nth(1)
    const second = await ended(post(link, [yes(0)], headers))
    expect(gist(second)).toEqual(['note', 'next'])
    expect(endpoint.answers).toHaveLength(1)
    // It came to the endpoint as a message of the client's: again, it comes again.
    expect((await post(url, yes(0), headers)).status).toBe(202)
    expect(endpoint.answers).toHaveLength(2)
  })

  it('frees the stream when it comes to the endpoint while the stream waits', async () => {
    const { url, headers, first, link, streams } = await start()
    expect(streams.stats()).toMatchObject({ waiting: 1 })
    await post(url, yes(0), headers)
    const resumed = await get(link, { ...headers, 'last-event-id': first.blocks.at(-1)!.id! })
    expect(resumed.status).toBe(200)
    await resumed.ended
    expect(gist(resumed)).toEqual(['note', 'next'])
  })
})

describe('many answers in one POST', () => {
  const IDS = Array.from({ length: 20 }, (_, i) => i)

  const start = async (onAnswer: NonNullable<AskingOptions['onAnswer']>) => {
    const endpoint = askingEndpoint(
      async (call, ask) => {
        await Promise.all(IDS.map(id => ask(id)))
        call.result({ all: true })
      },
      { onAnswer }
    )
    const { url } = await serve(endpoint, QUICK)
    const first = await ended(post(url, callTool(1, 'any'), ANNOUNCED))
    const answer = () =>
      post(
        linkOf(first, url),
        IDS.map(id => yes(id)),
        ANNOUNCED
      )
    return { endpoint, answer, seen: () => endpoint.answers.map(({ message }) => message.id) }
  }

  it('reach the endpoint in order: after the first a few at a time, however long it takes over each', async () => {
    const gates = IDS.map(() => gate())
    const { endpoint, answer, seen } = await start(({ message }) => gates[message.id]!.opened)
    const answered = answer()
    await endpoint.answers.nth(1)
    await new Promise(setImmediate)
    expect(seen()).toEqual([0])
    gates[0]!.open()
    await endpoint.answers.nth(9)
    await new Promise(setImmediate)
    expect(seen()).toEqual(IDS.slice(0, 9))
    for (const { open } of gates) open()
    const next = await ended(answered)
    expect(next.messages()).toMatchObject([{ id: 1, result: { all: true } }])
    expect(seen()).toEqual(IDS)
  })

  it('stop with the first that is refused, which says what is wrong with all; what was taken stays so', async () => {
    let refused: number[] = [3, 5]
    const statuses: Record<number, number> = { 3: 400, 5: 403 }
    const slow = gate()
    const { answer, seen } = await start(async ({ message: { id }, res }) => {
      if (!refused.includes(id)) return
      if (id === 5) await slow.opened
      res.writeHead(statuses[id]!).end(`refused ${id}`)
      slow.open()
    })
    const response = await ended(answer())
    expect([response.status, response.text]).toEqual([400, 'refused 3'])
    const before = seen()
    expect(before.length).toBeLessThan(IDS.length)
    refused = []
    const next = await ended(answer())
    expect(next.messages()).toMatchObject([{ id: 1, result: { all: true } }])
    const again = seen().slice(before.length)
    expect(again).toEqual(IDS.filter(id => !before.includes(id) || id === 3 || id === 5))
  })
})

describe('an answer to the endpoint, without a session,', () => {
  const ALICE = { ...ANNOUNCED, ...headersFor({ auth: 'alice' }) }

  /** Calls of Alice's that have asked under these ids, and wait. */
  const waitingCalls = async (...ids: string[]) => {
    const { url, streams } = await serve(
      askingEndpoint(call => call.emit(elicitation(call.message.params.arguments.id))),
      QUICK
    )
    const links: string[] = []
    for (const id of ids) {
      const first = await ended(post(url, callTool(1, 'any', { id }), ALICE))
      links.push(linkOf(first, url))
    }
    /** What is still waiting, once the endpoint has taken an answer. */
    const afterAnswer = async (headers: Record<string, string>, link = url) => {
      const response = await post(link, link === url ? yes('a') : [yes('a')], headers)
      if (link === url) await response.ended
      // Whatever comes of it is done when another request has gone the same way.
      await ended(post(url, yes('nobody asked'), ALICE))
      return [response.status, streams.stats().waiting]
    }
    return { links, afterAnswer }
  }

  it('frees the stream of its owner that has asked', async () => {
    const { afterAnswer } = await waitingCalls('a', 'b')
    expect(await afterAnswer(ALICE)).toEqual([202, 1])
  })

  it.each([
    ['of somebody else', headersFor({ auth: 'bob' })],
    ['of nobody in particular', {}]
  ])('%s, frees nothing', async (_name, headers) => {
    const { afterAnswer } = await waitingCalls('a')
    expect(await afterAnswer(headers)).toEqual([202, 1])
  })

  it('frees nothing where two have asked under its id; a hand-over frees one', async () => {
    const { links, afterAnswer } = await waitingCalls('a', 'a')
    expect(await afterAnswer(ALICE)).toEqual([202, 2])
    expect(await afterAnswer(ALICE, links[0])).toEqual([200, 1])
    expect(await afterAnswer(ALICE, links[1])).toEqual([200, 0])
  })
})

it('an answer to a question that is too old to be remembered reaches the endpoint with the others', async () => {
  const ids = Array.from({ length: 1002 }, (_, i) => i + 1)
  const endpoint = askingEndpoint(async (call, ask) => {
    await Promise.all([1, 1002].map(id => ask(id)).concat(ids.slice(1, -1).map(id => ask(id))))
    call.result({ done: true })
  })
  const { url } = await serve(endpoint, QUICK)
  const first = await ended(post(url, callTool(1, 'any'), ANNOUNCED))
  const response = await post(
    linkOf(first, url),
    ids.map(id => yes(id)),
    ANNOUNCED
  )
  expect(response.status).toBe(200)
  await response.ended
  expect(response.messages().at(-1)).toMatchObject({ id: 1, result: { done: true } })
  const seen = endpoint.answers.map(({ message }) => message.id)
  expect(seen.sort((a, b) => a - b)).toEqual(ids)
})
