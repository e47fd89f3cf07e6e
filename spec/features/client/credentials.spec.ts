// Whose headers a reconnection carries: the latest call's of the same session, and those of the
// option.

import { describe, expect, it } from '@jest/globals'
import { resumableFetch } from '../../../lib/client/index.js'
import { gate } from '../../helpers/gate.js'
import {
  cut,
  FAST,
  fetchOnce,
  note,
  POST,
  readAll,
  response,
  scripted,
  status,
  whole,
  type ServerAnswer
} from './scripted.js'

const withHeaders = (headers: Record<string, string>): RequestInit => ({
  ...POST,
  headers: { ...POST.headers, ...headers }
})

/** Stays open until the gate is, and is cut then. */
function cutLater(text: string) {
  const opened = gate()
  const answer: ServerAnswer = async (res, req) => {
    res.writeHead(200, {
      'Content-Type': 'text/event-stream',
      Link: `<?stream=${req.headers['x-name'] as string}>; rel="stream"`
    })
    res.write(text)
    await opened.opened
    res.socket?.resetAndDestroy()
  }
  return { answer, cut: () => opened.open() }
}

describe('a reconnection', () => {
  it('carries the headers of the latest call, not of the first', async () => {
    const first = cutLater(note('1', 1))
    const { url, requests } = await scripted(first.answer, status(202), whole(response('2')))
    const fetch = resumableFetch(FAST)
    const answer = await fetch(
      url,
      withHeaders({ Authorization: 'Bearer old', 'X-Name': 'a', 'X-Old': '1' })
    )
    await fetch(
      url,
      withHeaders({
        Authorization: 'Bearer new',
        'Mcp-Protocol-Version': '2025-11-25',
        'Mcp-Method': 'x',
        'Mcp-Param-Region': 'eu'
      })
    )
    first.cut()
    await readAll(answer)
    expect(requests[2]?.headers).toMatchObject({
      authorization: 'Bearer new',
      'mcp-protocol-version': '2025-11-25'
    })
    const ofOneCall = ['mcp-method', 'mcp-param-region', 'content-type', 'idempotency-key']
    for (const name of ['x-old', ...ofOneCall])
      expect(requests[2]?.headers).not.toHaveProperty(name)
  })

  it('never carries headers of another session or another server', async () => {
    const a = cutLater(note('1', 1))
    const b = cutLater(note('1', 1))
    const other = await scripted(status(202))
    const resumed = (req: { url?: string | undefined }): string =>
      /stream=(\w)/.exec(req.url ?? '')![1]!
    const answerBoth: ServerAnswer = (res, req) => whole(response(resumed(req)))(res, req)
    const { url, requests } = await scripted(
      a.answer,
      b.answer,
      status(202),
      answerBoth,
      answerBoth
    )
    const fetch = resumableFetch(FAST)
    const ofA = await fetch(
      url,
      withHeaders({ Authorization: 'Bearer A', 'Mcp-Session-Id': 'A', 'X-Name': 'a' })
    )
    const ofB = await fetch(
      url,
      withHeaders({ Authorization: 'Bearer B', 'Mcp-Session-Id': 'B', 'X-Name': 'b' })
    )
    await fetch(other.url, withHeaders({ Authorization: 'Bearer other', 'Mcp-Session-Id': 'A' }))
    await fetch(url, withHeaders({ Authorization: 'Bearer A2', 'Mcp-Session-Id': 'A' }))
    a.cut()
    b.cut()
    await Promise.all([readAll(ofA), readAll(ofB)])
    const carried = requests
      .filter(({ method }) => method === 'GET')
      .map(({ url, headers }) => [url, headers.authorization, headers['mcp-session-id']])
    expect(carried.sort()).toEqual([
      ['/mcp?stream=a', 'Bearer A2', 'A'],
      ['/mcp?stream=b', 'Bearer B', 'B']
    ])
  })
})

describe('the option `headers`', () => {
  it.each([
    ['an object', { Authorization: 'Bearer option', 'X-More': 'yes' }],
    [
      'a list',
      [
        ['Authorization', 'Bearer option'] as [string, string],
        ['X-More', 'yes'] as [string, string]
      ]
    ],
    ['Headers', new Headers({ Authorization: 'Bearer option', 'X-More': 'yes' })],
    ['a function', () => ({ Authorization: 'Bearer option', 'X-More': 'yes' })],
    [
      'an asynchronous function',
      () => Promise.resolve(new Headers({ Authorization: 'Bearer option', 'X-More': 'yes' }))
    ]
  ])(
    "may be %s, and overrides the call's headers on reconnections only",
    async (_name, headers) => {
      const { url, requests } = await scripted(cut(note('1', 1)), whole(response('2')))
      await readAll(
        await fetchOnce(
          url,
          { headers },
          withHeaders({ Authorization: 'Bearer call', 'X-Kept': 'yes' })
        )
      )
      expect(requests[0]?.headers.authorization).toBe('Bearer call')
      expect(requests[1]?.headers).toMatchObject({
        authorization: 'Bearer option',
        'x-more': 'yes',
        'x-kept': 'yes'
      })
    }
  )

  it('is evaluated anew for each attempt', async () => {
    const { url, requests } = await scripted(
      cut(note('1', 1)),
      status(503),
      cut(note('2', 2)),
      whole(response('3'))
    )
    let n = 0
    await readAll(await fetchOnce(url, { headers: () => ({ 'X-N': String(++n) }) }))
    expect(requests.map(({ headers }) => headers['x-n'])).toEqual([undefined, '1', '2', '3'])
  })

  it('counts as silence where its promise never settles', async () => {
    const { url } = await scripted(cut(note('1', 1)), whole(response('2')))
    const making = [() => new Promise<Record<string, string>>(() => undefined), () => ({})]
    const reasons: string[] = []
    const answer = await fetchOnce(url, {
      headers: () => making.shift()!(),
      idleTimeout: 50,
      onReconnect: ({ reason }) => reasons.push(reason)
    })
    expect((await readAll(answer)).error).toBeUndefined()
    expect(reasons).toEqual(['error', 'error'])
  })

  it('counts as a failed attempt where it throws or rejects', async () => {
    const { url } = await scripted(cut(note('1', 1)), whole(response('2')))
    const failing = [() => Promise.reject(new Error('no token')), () => ({})]
    expect(
      (await readAll(await fetchOnce(url, { headers: () => failing.shift()!() }))).error
    ).toBeUndefined()
    const broken = await scripted(cut(note('1', 1)))
    const headers = () => Promise.reject(new Error('no token'))
    const { error } = await readAll(await fetchOnce(broken.url, { headers, maxRetries: 2 }))
    expect(error).toMatchObject({ code: 'retries-exhausted', cause: { message: 'no token' } })
  })
})
