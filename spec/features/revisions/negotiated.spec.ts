// The revision is what the session has agreed upon, read from the result of `initialize`; a header
// only counts without one.

import { describe, expect, it } from '@jest/globals'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import {
  callTool,
  ended,
  get,
  headersFor,
  initialize,
  initializeSession,
  post
} from '../../helpers/mcp.js'
import type { Block } from '../../helpers/open-stream.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const answers = () => rawEndpoint(({ result }) => result())

/** What the first block of a response says about the revision that it was written for. */
function kindOf({ event, data }: Block): string {
  if (data === '') return 'empty'
  return event === 'prime' ? 'named' : 'none'
}

describe.each(['sse', 'json'] as const)(
  'a session whose initialize was answered by %s',
  initializeAs => {
    it.each([
      { agreed: '2025-06-18', header: '2025-06-18', primer: 'named' },
      { agreed: '2025-06-18', header: '2025-11-25', primer: 'named' },
      { agreed: '2025-06-18', header: undefined, primer: 'named' },
      { agreed: '2025-11-25', header: '2025-11-25', primer: 'empty' },
      { agreed: '2025-11-25', header: '2025-03-26', primer: 'empty' },
      { agreed: '2025-11-25', header: '2026-07-28', primer: 'empty' },
      { agreed: '2025-11-25', header: undefined, primer: 'empty' },
      { agreed: '2026-07-28', header: '2025-11-25', primer: 'none' }
    ])(
      'at $agreed: a request that says $header gets primer $primer',
      async ({ agreed, header, primer }) => {
        const { url } = await serve(
          rawEndpoint(({ result }) => result(), { session: 's', initializeAs })
        )
        await initializeSession(url, agreed)
        const response = await post(
          url,
          callTool(1, 'x'),
          headersFor({ session: 's', version: header })
        )
        expect(kindOf(await response.next())).toBe(primer)
        expect(response.headers.link !== undefined).toBe(primer !== 'none')
      }
    )

    it('has agreed upon what the result says, whatever was asked for', async () => {
      const endpoint = rawEndpoint(({ message, res, result, open }) => {
        if (message.method !== 'initialize') return result()
        const answer = {
          protocolVersion: '2025-06-18',
          capabilities: {},
          serverInfo: { name: 'x', version: '1' }
        }
        if (initializeAs === 'sse') {
          open({ 'Mcp-Session-Id': 's' })
          return result(answer)
        }
        const body = JSON.stringify({ jsonrpc: '2.0', id: message.id, result: answer })
        res.writeHead(200, { 'Mcp-Session-Id': 's', 'Content-Type': 'application/json' })
        // In pieces, one of them cut through the version.
        res.write(body.slice(0, body.indexOf('-06')))
        res.end(body.slice(body.indexOf('-06')))
      })
      const { url } = await serve(endpoint)
      await ended(post(url, initialize('2025-11-25')))
      const response = await post(
        url,
        callTool(1, 'x'),
        headersFor({ session: 's', version: '2025-11-25' })
      )
      expect(kindOf(await response.next())).toBe('named')
    })

    it('does not count for another session', async () => {
      const { url } = await serve(
        rawEndpoint(({ result }) => result(), { session: 's', initializeAs })
      )
      await initializeSession(url, '2025-06-18')
      const other = await post(
        url,
        callTool(1, 'x'),
        headersFor({ session: 'other', version: '2025-11-25' })
      )
      expect(kindOf(await other.next())).toBe('empty')
      const none = await post(url, callTool(1, 'x'), headersFor({ version: '2025-11-25' }))
      expect(kindOf(await none.next())).toBe('empty')
    })
  }
)

describe('a refused initialize', () => {
  it('agrees upon nothing', async () => {
    const endpoint = rawEndpoint(({ message, open, error, result }) => {
      if (message.method !== 'initialize') return result()
      open({ 'Mcp-Session-Id': 's' })
      error(-32602, 'no such revision: "protocolVersion":"2025-06-18"')
    })
    const { url } = await serve(endpoint)
    await ended(post(url, initialize('2025-06-18')))
    const response = await post(
      url,
      callTool(1, 'x'),
      headersFor({ session: 's', version: '2025-11-25' })
    )
    expect(kindOf(await response.next())).toBe('empty')
  })
})

describe('without a session', () => {
  it.each([
    { header: '2025-06-18', primer: 'named' },
    { header: '2025-11-25', primer: 'empty' }
  ])('the header counts: $header', async ({ header, primer }) => {
    const { url } = await serve(answers())
    const response = await post(url, callTool(1, 'x'), headersFor({ version: header }))
    expect(kindOf(await response.next())).toBe(primer)
  })
})

describe.each([
  ['SDK v1, SSE', () => sdkV1Stateful()],
  ['SDK v1, JSON', () => sdkV1Stateful({ enableJsonResponse: true })],
  ['SDK v2, SSE', () => sdkV2Stateful()],
  ['SDK v2, JSON', () => sdkV2Stateful({ enableJsonResponse: true })]
])('the listen channel of a session of %s', (_name, create) => {
  // JSON endpoints answer calls in JSON; what their sessions listen on is a stream all the same.
  it.each([
    ['2025-06-18', 'named'],
    ['2025-11-25', 'empty']
  ])('at %s, asked for without a version, has a primer that is %s', async (version, primer) => {
    const endpoint = create()
    const { url } = await serve(endpoint)
    const { sessionId } = await initializeSession(url, version)
    const channel = await get(url, headersFor({ session: sessionId }))
    expect(kindOf(await channel.next())).toBe(primer)
    const { server } = endpoint.sessions.get(sessionId!)!
    await server.sendLoggingMessage({ level: 'info', data: 'one' })
    const event = await channel.next()
    channel.destroy()
    const again = await get(
      streamUrl(channel, url),
      headersFor({ session: sessionId, lastEventId: event.id })
    )
    expect(kindOf(await again.next())).toBe(primer)
  })
})
