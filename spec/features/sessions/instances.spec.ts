// Sessions whose instance has gone, where there are others: one of them begins each again.

import { describe, expect, it } from '@jest/globals'
import { sessions } from '../../../lib/features/sessions/index.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { type RawCall, rawEndpoint, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful, type SdkV1Endpoint } from '../../helpers/endpoints/sdk-v1.js'
import {
  callTool,
  cancelled,
  del,
  ended,
  get,
  initializeSession,
  post,
  request
} from '../../helpers/mcp.js'
import { until } from '../../helpers/happenings.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'

const options = { sessions: sessions({ secret: 'a secret of this spec' }) }
const VERSION = '2025-11-25'

async function begun<E extends SdkV1Endpoint | RawEndpoint>(make: () => E, mode?: 'local') {
  const endpoints: E[] = []
  const made = await cluster(
    i => (endpoints[i] = make()),
    options,
    mode === undefined ? {} : { sessions: mode }
  )
  const urls = made.members.map(({ url }) => url)
  const { headers } = await initializeSession(urls[0]!, VERSION)
  const call = async (i: number, id: number) =>
    ended(post(urls[i]!, callTool(id, 'count', { n: 1 }), headers))
  const leave = (i: number) => made.members[i]!.streams.close({ drain: 0 })
  const revivals = () => made.members.map(({ streams }) => streams.stats().revivals)
  return { members: made.members, endpoints, urls, headers, call, leave, revivals }
}

describe('a session whose instance has gone', () => {
  it('is begun again by one of those that are asked at once, which then has it', async () => {
    const { call, leave, revivals, endpoints, urls, headers } = await begun(sdkV1Stateful)
    await leave(0)
    const answers = await Promise.all([1, 2, 1, 2].map((i, id) => call(i, id)))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(revivals().slice(1).sort()).toEqual([0, 1])
    for (const url of urls.slice(1)) {
      const again = await ended(get(streamUrl(answers[0]!, url), headers))
      expect(again.messages().at(-1)).toMatchObject({ id: 0 })
    }
    expect(
      endpoints
        .slice(1)
        .map(({ sessions }) => sessions.size)
        .sort()
    ).toEqual([0, 1])

    const second = revivals().indexOf(1)
    await leave(second)
    expect((await call(3 - second, 5)).status).toBe(200)
    expect(revivals()).toEqual([0, 1, 1])
  })

  it('stays ended at all of them', async () => {
    const { call, revivals, headers, urls } = await begun(sdkV1Stateful)
    expect((await ended(del(urls[0]!, headers))).status).toBe(200)
    expect([(await call(1, 1)).status, (await call(2, 2)).status]).toEqual([404, 404])
    expect(revivals()).toEqual([0, 0, 0])
  })

  it('has its subscriptions and its level again', async () => {
    const names: string[] = []
    const { call, leave, urls, headers, endpoints } = await begun(() => {
      const session = `session ${names.push('')}`.replace(' ', '-')
      return rawEndpoint(
        ({ req, res, result }) =>
          req.headers['mcp-session-id'] === session ? result() : void res.writeHead(404).end(),
        { session }
      )
    })
    const ask = (method: string, params: object) =>
      ended(post(urls[0]!, request(1, method, params), headers))
    await ask('logging/setLevel', { level: 'debug' })
    await ask('logging/setLevel', { level: 'error' })
    for (const uri of ['a:1', 'a:2', 'a:3']) await ask('resources/subscribe', { uri })
    await ask('resources/unsubscribe', { uri: 'a:2' })
    await leave(0)
    expect((await call(1, 1)).status).toBe(200)
    const asked = endpoints[1]!.calls.map(({ message }) => [message.method, message.params])
    expect(asked.slice(1, -1)).toEqual([
      ['logging/setLevel', { level: 'error' }],
      ['resources/subscribe', { uri: 'a:1' }],
      ['resources/subscribe', { uri: 'a:3' }]
    ])
  })

  it('may go on at each of them where sessions are local', async () => {
    const { call, leave, revivals } = await begun(sdkV1Stateful, 'local')
    await leave(0)
    for (const [id, i] of [1, 2, 1, 2].entries()) expect((await call(i, id)).status).toBe(200)
    expect(revivals()).toEqual([0, 1, 1])
  })
})

describe('a session whose instance leaves', () => {
  /** Each instance's endpoint knows the sessions that it has begun, and asks in each call. */
  const asking = async () => {
    const names: string[] = []
    const made = await begun(() => {
      const session = `session-${names.push('')}`
      return rawEndpoint(
        ({ req, res, message, open, emit, result }) => {
          if (req.headers['mcp-session-id'] !== session) return void res.writeHead(404).end()
          if (message?.method === 'tools/call') {
            open()
            emit({ ...request(0, 'elicitation/create', { message: 'Who?' }), jsonrpc: '2.0' })
          } else result()
        },
        { session }
      )
    })
    // An instance that has had no request begins nothing for others.
    for (const url of made.urls.slice(1)) await initializeSession(url, VERSION)
    return made
  }
  const answerTo = (id: unknown, text: string) => ({ jsonrpc: '2.0', id, result: { text } })

  it('is begun again at another one, and what was asked before is answered before', async () => {
    const { members, endpoints, urls, headers } = await asking()
    const old = await post(urls[0]!, callTool(1, 'ask'), headers)
    const first = await endpoints[0]!.calls.nth(1)
    const firstId = await askedIn(old)
    const closed = members[0]!.streams.close()

    const next = await post(urls[1]!, callTool(2, 'ask'), headers)
    const askedId = await askedIn(next)
    expect(firstId).toBe(0)
    expect(askedId).not.toBe(firstId)
    const second = endpoints[1]!.calls.at(-1)!

    // Over either instance, and over the third one.
    for (const [url, id, text] of [
      [urls[1]!, askedId, 'second'],
      [urls[2]!, firstId, 'first']
    ] as const)
      expect((await ended(post(url, answerTo(id, text), headers))).status).toBe(202)
    await ended(post(urls[2]!, cancelled(77), headers))
    const heard = (i: number) =>
      endpoints[i]!.requests.map(({ message }) => message).filter(
        message => message?.result?.text !== undefined
      )
    expect(heard(0)).toEqual([answerTo(0, 'first')])
    expect(heard(1)).toEqual([answerTo(0, 'second')])
    const isTold = (i: number) =>
      endpoints[i]!.requests.some(({ message }) => message?.params?.requestId === 77)
    await until(() => isTold(0) && isTold(1))

    first.result()
    second.result()
    expect((await old.nextMessage()).id).toBe(1)
    expect((await next.nextMessage()).id).toBe(2)
    await closed
    // The second one is shown the session's old id first.
    const inSession = endpoints.map(({ calls }, i) =>
      calls.filter(
        call => isCall(call) && call.req.headers['mcp-session-id'] === `session-${i + 1}`
      )
    )
    expect(inSession.map(({ length }) => length)).toEqual([1, 1, 0])
  })

  it('is served where it is asked for, also where that is the instance that leaves', async () => {
    const { members, endpoints, urls, headers } = await asking()
    const old = await post(urls[0]!, callTool(1, 'ask'), headers)
    const closed = members[0]!.streams.close()
    const next = await post(urls[0]!, callTool(2, 'ask'), headers)
    expect(next.headers.connection).toBe('close')
    await askedIn(next)
    const took = endpoints.findIndex(({ calls }, i) => i > 0 && calls.some(isCall))
    expect(took).toBeGreaterThan(0)
    // Who listens there is sent away.
    const channel = await get(urls[0]!, headers)
    expect(await channel.ended).toBe('end')
    expect(channel.text).toMatch(/^retry: \d+\n$/)
    for (const { calls } of endpoints) for (const call of calls) if (isCall(call)) call.result()
    expect((await next.nextMessage()).id).toBe(2)
    await old.next(({ data }) => data?.includes('"result"') === true)
    await closed
  })
})

/** The id of the question in a stream. */
const askedIn = async (stream: OpenStream): Promise<unknown> => {
  const { data } = await stream.next(block => block.data?.includes('elicitation') === true)
  return JSON.parse(data!).id
}

const isCall = ({ message }: RawCall): boolean => message?.method === 'tools/call'
