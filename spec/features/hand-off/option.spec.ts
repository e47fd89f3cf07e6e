// Option `handoff`: to whom streams are handed off.

import { describe, expect, it } from '@jest/globals'
import { callTool, get, post } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { ANNOUNCED, askingEndpoint, QUICK, UNANNOUNCED, yes } from './asking.js'
import { SepClient } from './sep-client.js'

const lastId = (stream: OpenStream): string =>
  stream.blocks.findLast(({ id }) => id !== undefined)!.id!

async function asking(handoff: 'auto' | 'always' | 'never' | undefined, more = {}) {
  const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()), {
    session: 's'
  })
  return { endpoint, ...(await serve(endpoint, { ...QUICK, handoff, ...more })) }
}

describe('handoff: never', () => {
  const start = async (headers: Record<string, string>) => {
    const served = await asking('never', { handoffAfter: 1 })
    const response = await post(served.url, callTool(1, 'any'), {
      ...headers,
      'mcp-session-id': 's'
    })
    await response.nextMessage()
    return { ...served, response, link: streamUrl(response, served.url) }
  }

  it.each([
    ['announced', ANNOUNCED],
    ['unannounced', UNANNOUNCED]
  ])(
    'keeps the connection of an %s client, and takes answers at the endpoint only',
    async (_name, headers) => {
      const { url, response, link, endpoint, streams } = await start(headers)
      await new Promise(resolve => setTimeout(resolve, 30))
      expect([response.ending, streams.stats().waiting]).toEqual([undefined, 0])
      const refused = await post(link, [yes('a')], headers)
      expect([refused.status, refused.headers.allow]).toEqual([405, 'GET, HEAD, DELETE, OPTIONS'])
      expect(await refused.json()).toMatchObject({
        id: null,
        error: { code: -31000, data: { reason: 'method-not-allowed' } }
      })
      expect(endpoint.answers).toHaveLength(0)
      await post(url, yes('a'), { ...headers, 'mcp-session-id': 's' })
      expect(await response.ended).toBe('end')
    }
  )

  it('tells a client that announces itself, which would wait for a 204', async () => {
    expect((await start(ANNOUNCED)).response.headers['preference-applied']).toBe(
      'rel=stream; handoff=never'
    )
    expect((await start(UNANNOUNCED)).response.headers['preference-applied']).toBeUndefined()
  })

  it('lets a client that has fetched a stream URL follow it, and no more', async () => {
    const { response, link } = await start(ANNOUNCED)
    response.destroy()
    const resumed = await get(link, { ...ANNOUNCED, 'last-event-id': lastId(response) })
    await new Promise(resolve => setTimeout(resolve, 20))
    expect([resumed.status, resumed.ending]).toEqual([200, undefined])
  })
})

describe('handoff: always', () => {
  it.each(['2025-03-26', '2025-06-18', '2025-11-25'])(
    'a client that says nothing is handed off to, at %s',
    async version => {
      const { url, endpoint } = await asking('always')
      const client = new SepClient(url, {
        headers: { 'mcp-protocol-version': version },
        answer: ({ id }) => yes(id)
      })
      const { response, trace } = await client.call(callTool(1, 'any'))
      expect(response.result).toEqual({})
      expect(trace).toEqual(['call 200', 'GET 204', 'answers 200'])
      expect(endpoint.answers).toHaveLength(1)
    }
  )
})

describe.each(['auto', undefined] as const)('handoff: %s', handoff => {
  it('applies the preference of a client that announces itself, in every turn', async () => {
    const { url } = await asking(handoff)
    const first = await post(url, callTool(1, 'any'), ANNOUNCED)
    await first.ended
    expect(first.headers['preference-applied']).toBe('rel=stream')
    const next = await post(streamUrl(first, url), [yes('a')], ANNOUNCED)
    expect(next.headers['preference-applied']).toBe('rel=stream')
    const quiet = await post(streamUrl(first, url), [yes('a')], UNANNOUNCED)
    expect([quiet.status, quiet.headers['preference-applied']]).toEqual([200, undefined])
  })
})
