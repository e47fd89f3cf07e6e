// The option `primer`: `auto` is the revision table; `always` and `never` overrule it, for streams
// that are taken at all.

import { describe, expect, it } from '@jest/globals'
import { setImmediate as turn } from 'node:timers/promises'
import { currentStream } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import {
  callTool,
  ended,
  eventId,
  get,
  headersFor,
  initialize,
  post,
  postModern,
  REVISIONS
} from '../../helpers/mcp.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'

const answers = () => rawEndpoint(({ result }) => result({}), { stateless: true })
const EVENT = 'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
const headersAt = (version: string) =>
  headersFor({ version, ...(version === '2026-07-28' && { prefer: 'rel=stream' }) })

describe.each(REVISIONS)('at %s', version => {
  const headers = headersAt(version)

  it('always: the empty primer of 2025-11-25, on every connection', async () => {
    const { url } = await serve(answers(), { primer: 'always' })
    const response = await ended(post(url, callTool(1, 'x'), headers))
    const id = streamId(response)
    expect(response.text).toBe(
      `id: ${eventId(id, '0.1')}\nretry: 3000\ndata:\n\nid: ${eventId(id, 1)}\n${EVENT}`
    )
    const resumed = await ended(get(streamUrl(response, url), headers))
    expect(resumed.text).toBe(
      `id: ${eventId(id, '0.3')}\nretry: 3000\ndata:\n\nid: ${eventId(id, 1)}\n${EVENT}`
    )
  })

  it('never: no primer, the reconnection time on the first event', async () => {
    const { url } = await serve(answers(), { primer: 'never' })
    const response = await ended(post(url, callTool(1, 'x'), headers))
    const id = streamId(response)
    expect(response.text).toBe(`retry: 3000\nid: ${eventId(id, 1)}\n${EVENT}`)
    const resumed = await ended(get(streamUrl(response, url), headers))
    expect(resumed.text).toBe(`retry: 3000\nid: ${eventId(id, 1)}\n${EVENT}`)
  })
})

describe.each(['always', 'never'] as const)('%s', primer => {
  it('does not take what 2026-07-28 has not announced', async () => {
    const { url } = await serve(answers(), { primer })
    const response = await ended(postModern(url, callTool(1, 'x')))
    expect(response.text).toBe(EVENT)
  })

  it('does not put a primer on the response to initialize', async () => {
    const { url } = await serve(answers(), { primer })
    const response = await post(url, initialize('2025-11-25'))
    expect((await response.next()).raw).toMatch(/^id: [\w-]{21}\.1\nevent: message\ndata: \{/)
  })
})

describe('never', () => {
  it('still lets the head out, with its link, before the first event', async () => {
    const endpoint = rawEndpoint(({ open }) => open())
    const { url } = await serve(endpoint, { primer: 'never' })
    const response = await post(url, callTool(1, 'x'), headersAt('2025-11-25'))
    expect(streamId(response)).toHaveLength(21)
    const resumed = await get(streamUrl(response, url))
    expect(resumed.status).toBe(200)
    const [call] = endpoint.calls
    call!.result({})
    await resumed.ended
    expect(resumed.text).toBe(`retry: 3000\nid: ${eventId(streamId(response), 1)}\n${EVENT}`)
  })
})

describe('disconnected at will, with primer never,', () => {
  const calls = () =>
    rawEndpoint(async ({ open, emit, message }) => {
      open()
      if (message.id === 1) emit({ jsonrpc: '2.0', method: 'notifications/x' })
      await turn()
      currentStream()!.disconnect({ retry: 1500 })
    })

  it('a client that has an event is told when to come back', async () => {
    const { url } = await serve(calls(), { primer: 'never' })
    const announced = { ...headersAt('2025-11-25'), prefer: 'rel=stream' }
    const response = await post(url, callTool(1, 'x'), announced)
    expect(await response.ended).toBe('end')
    expect(response.text).toMatch(
      /^retry: 3000\nid: [\w-]{21}\.r1\.1\nevent: message\ndata: .+\n\nretry: 1500\n$/
    )
    const id = response.events[0]!.id!
    expect((await get(url, { ...headersAt('2025-11-25'), 'last-event-id': id })).status).toBe(200)
  })

  it('one that has no id to come back with stays connected', async () => {
    const endpoint = calls()
    const { url } = await serve(endpoint, { primer: 'never' })
    const response = await post(url, callTool(2, 'x'), headersAt('2025-11-25'))
    await turn()
    endpoint.calls[0]!.result({})
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([{ jsonrpc: '2.0', id: 2, result: {} }])
    expect(response.text).not.toContain('1500')
  })
})

describe('retry: null', () => {
  it.each([
    ['auto', /^id: [\w-]{21}\.r1\.0\.1\ndata:\n\nid: /],
    ['never', /^id: [\w-]{21}\.r1\.1\nevent: /]
  ] as const)('leaves the reconnection time to the client, primer %s', async (primer, start) => {
    const { url } = await serve(answers(), { primer, retry: null })
    const response = await ended(post(url, callTool(1, 'x'), headersAt('2025-11-25')))
    expect(response.text).toMatch(start)
    expect(response.text).not.toContain('retry')
  })
})
