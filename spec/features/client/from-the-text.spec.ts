// Towards a server that is written from the text of SEP-1335, and knows nothing else: its streams
// have paths of their own, and answers are posted to them.

import { afterEach, describe, expect, it } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Reconnection, resumableFetch } from '../../../lib/client/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { Awaitable, gate } from '../../helpers/gate.js'
import { closeAll, listen } from '../../helpers/listen.js'
import { request, result } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import {
  block,
  cut,
  FAST,
  fetchOnce,
  note,
  POST,
  readAll,
  response,
  scripted,
  whole
} from './scripted.js'

afterEach(closeAll)

const TURNS = 3
const QUESTIONS = 3
const RETRY = 60

interface Visit {
  method: string
  url: string
  body: string
  /** Milliseconds since the turn before it ended. */
  after: number
}

/** Each call has three turns of three questions, and then its result. */
async function fromTheText(hasIds: boolean) {
  /** Requests for streams. */
  const visits = new Awaitable<Visit>()
  const atEndpoint: Json[] = []
  const taken: Json[][] = []
  let turn = 0
  let endedAt = 0
  let callId: unknown
  const open = (res: ServerResponse): void => {
    turn++
    const links = `</docs/,;>; rel=help, </streams/${turn}>;rel=stream, <s>; rel="next stream2"`
    res.writeHead(200, { 'Content-Type': 'text/event-stream', Link: links })
    const messages =
      turn > TURNS
        ? [result(callId as number, { content: [{ type: 'text', text: JSON.stringify(taken) }] })]
        : Array.from({ length: QUESTIONS }, (_, i) =>
            request(`t${turn}q${i}`, 'elicitation/create', {
              message: `turn ${turn}, question ${i}`,
              requestedSchema: { type: 'object', properties: { answer: { type: 'string' } } }
            })
          )
    res.write(`retry: ${RETRY}\n\n`)
    messages.forEach((message, i) =>
      res.write(
        hasIds
          ? block(`${turn}/${i}`, JSON.stringify(message))
          : `data: ${JSON.stringify(message)}\n\n`
      )
    )
    res.end()
    endedAt = performance.now()
  }
  const answerEndpoint = (message: Json, res: ServerResponse): void => {
    atEndpoint.push(message)
    if (message.method === 'tools/call') {
      callId = message.id
      return open(res)
    }
    if (message.id === undefined) return void res.writeHead(202).end()
    const { protocolVersion } = message.params
    const serverInfo = { name: 'from the text', version: '1' }
    const initialized = { protocolVersion, capabilities: { tools: {} }, serverInfo }
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end(JSON.stringify(result(message.id, initialized)))
  }
  const { url } = await listen(async (req: IncomingMessage, res: ServerResponse) => {
    const after = performance.now() - endedAt
    let body = ''
    for await (const chunk of req.setEncoding('utf8')) body += chunk
    const { method = '', url = '' } = req
    if (url === '/mcp' && method === 'POST') return answerEndpoint(JSON.parse(body), res)
    if (url === `/streams/${turn}`) visits.push({ method, url, body, after })
    if (url !== `/streams/${turn}` || !['GET', 'POST'].includes(method)) {
      res.writeHead(url === '/mcp' ? 405 : 404).end()
    } else if (method === 'GET') {
      res.writeHead(204).end()
    } else {
      taken.push(JSON.parse(body))
      open(res)
    }
  })
  return { url: `${url}/mcp`, origin: url, visits, atEndpoint }
}

describe.each([
  [
    '1.x at 2025-06-18',
    (url: string, more: object) => connectV1(url, { ...more, version: '2025-06-18' })
  ],
  ['1.x at 2025-11-25', connectV1],
  [
    '2.x at 2025-11-25',
    (url: string, more: object) => connectV2(url, { ...more, era: '2025-11-25' })
  ]
] as [string, typeof connectV1][])('client %s', (_name, connect) => {
  it.each([
    ['at once, with event ids', true, false],
    ['at once, without event ids', false, false],
    ['late, with event ids', true, true],
    ['late, without event ids', false, true]
  ])('answers three turns of three questions %s', async (_name, hasIds, isLate) => {
    const { url, visits, atEndpoint } = await fromTheText(hasIds)
    const delays: Pick<Reconnection, 'delay' | 'attempt'>[] = []
    const fetch = resumableFetch({
      onReconnect: ({ delay, attempt }) => delays.push({ delay, attempt })
    })
    const asked: string[] = []
    const { client } = await connect(url, {
      fetch,
      onElicit: async ({ message }) => {
        // A person who answers late does so when the server waits already.
        if (isLate) await visits.nth(2 * Math.ceil((asked.length + 1) / QUESTIONS) - 1)
        asked.push(message)
        return { action: 'accept', content: { answer: `to ${message}` } }
      }
    })
    const { content } = (await client.callTool({ name: 'ask' })) as { content: { text: string }[] }

    const turns = Array.from({ length: TURNS }, (_, i) => i + 1)
    const questions = turns.map(turn =>
      Array.from({ length: QUESTIONS }, (_, i) => `turn ${turn}, question ${i}`)
    )
    expect([...asked].sort()).toEqual(questions.flat())
    const answers = JSON.parse(content[0]!.text) as Json[][]
    expect(answers.map(list => list.map(({ result }) => result.content.answer))).toEqual(
      questions.map(list => list.map(message => `to ${message}`))
    )
    // One GET of each turn and one POST, and only the call itself at the endpoint.
    expect(visits.map(({ method, url }) => `${method} ${url}`)).toEqual(
      turns.flatMap(turn => [`GET /streams/${turn}`, `POST /streams/${turn}`])
    )
    expect(atEndpoint.map(({ method }) => method)).toEqual([
      'initialize',
      'notifications/initialized',
      'tools/call'
    ])
    expect(delays).toEqual(turns.map(() => ({ delay: RETRY, attempt: 1 })))
    for (const { method, after } of visits)
      if (method === 'GET') expect(after).toBeGreaterThanOrEqual(RETRY - 2)
  })
})

describe('a stream with a path of its own', () => {
  it('is resumed there, after its last event', async () => {
    const Link = '</help>; rel=help, </streams/1>; rel=stream'
    const { url, requests } = await scripted(
      cut(note('a', 1), { Link }),
      whole(response('b'), { Link })
    )
    expect((await readAll(await fetchOnce(url))).text).toBe(note('a', 1) + response('b'))
    expect(requests[1]).toMatchObject({ url: '/streams/1', headers: { 'last-event-id': 'a' } })
  })

  it.each(['</streams/1>', '<streams/1>', '</mcp/../admin>', '<?stream=S>'])(
    'is followed with `samePath` only if that is the path of the endpoint: %s',
    async target => {
      const headers = { Link: `${target}; rel=stream` }
      const { url, requests } = await scripted(cut(note('a', 1), headers), whole(response('b')))
      const { error } = await readAll(await fetchOnce(url, { samePath: true }))
      const isFollowed = target === '<?stream=S>'
      expect([requests.length, error === undefined]).toEqual([isFollowed ? 2 : 1, isFollowed])
    }
  )

  it('is cancelled there', async () => {
    const opened = gate()
    const { url, requests } = await scripted((res, req) => {
      const Link = '</streams/1>; rel=stream'
      res.writeHead(200, { 'Content-Type': 'text/event-stream', Link }).flushHeaders()
      req.socket.once('close', opened.open)
    })
    const controller = new AbortController()
    const fetch = resumableFetch(FAST)
    const body = readAll(await fetch(url, { ...POST, signal: controller.signal }))
    controller.abort()
    await body
    expect(await requests.nth(2)).toMatchObject({ method: 'DELETE', url: '/streams/1' })
  })
})
