// Sessions whose instance has gone, where there are others: one of them begins each again.

import { describe, expect, it } from '@jest/globals'
import { sessions } from '../../../lib/features/sessions/index.js'
import { cluster } from '../../helpers/backplane/cluster.js'
import { rawEndpoint, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful, type SdkV1Endpoint } from '../../helpers/endpoints/sdk-v1.js'
import { callTool, del, ended, get, initializeSession, post, request } from '../../helpers/mcp.js'
import { streamUrl } from '../../helpers/serve.js'

const options = { sessions: sessions({ secret: 'a secret of this spec' }) }
const VERSION = '2025-11-25'

/** A call at an instance that has just gone may have run; in sessions that are local none is there. */
async function begun<E extends SdkV1Endpoint | RawEndpoint>(
  make: () => E,
  mode?: 'local',
  lostIs = 'owner-gone'
) {
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
  /** Calls that it may have begun end with an error; from then on it counts as gone. */
  const leave = async (i: number) => {
    await made.members[i]!.streams.close({ drain: 0 })
    const lost = await Promise.all([1, 2].filter(other => other !== i).map(j => call(j, 99)))
    for (const { text } of lost) expect(text).toContain(lostIs)
  }
  const revivals = () => made.members.map(({ streams }) => streams.stats().revivals)
  return { endpoints, urls, headers, call, leave, revivals }
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
    const { call, leave, revivals } = await begun(sdkV1Stateful, 'local', 'counted')
    await leave(0)
    for (const [id, i] of [1, 2, 1, 2].entries()) expect((await call(i, id)).status).toBe(200)
    expect(revivals()).toEqual([0, 1, 1])
  })
})
