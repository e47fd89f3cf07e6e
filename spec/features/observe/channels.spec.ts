// `diagnostics_channel`: what happens to streams, for whoever subscribes.

import { describe, expect, it } from '@jest/globals'
import supertest from 'supertest'
import type { DiagnosticName, McpStreamsOptions } from '../../../lib/index.js'
import { rawEndpoint, type RawScript } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { happenings, until } from '../../helpers/happenings.js'
import {
  callTool,
  cancelled,
  del,
  ended,
  get,
  headersFor,
  initializeSession,
  post,
  request
} from '../../helpers/mcp.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'

const NAMES: DiagnosticName[] = [
  'created',
  'connection-lost',
  'resumed',
  'taken-over',
  'completed',
  'failed',
  'cancelled',
  'abandoned',
  'evicted',
  'refused'
]

/** Subscribes to everything, and keeps the order. */
function everything() {
  const all: [name: string, message: unknown][] = []
  for (const name of NAMES) {
    const messages = happenings(name)
    const { push } = messages
    messages.push = message => {
      all.push([name, message])
      return push.call(messages, message)
    }
  }
  return all
}

const headers = headersFor({ version: '2025-11-25', session: 's' })
const answers: RawScript = ({ result }) => result({})
const holds: RawScript = ({ open }) => open()

async function called(script: RawScript, options?: McpStreamsOptions) {
  const endpoint = rawEndpoint(script)
  const { url, streams } = await serve(endpoint, options)
  const response = await post(url, callTool(1, 'x'), headers)
  return { url, streams, endpoint, response, own: streamUrl(response, url), id: streamId(response) }
}

/** A message about the stream, as a subscriber sees it. */
const about = (streamId: string, state: string, reason?: string) => ({
  streamId,
  kind: 'request',
  state,
  sessionId: 's',
  reason
})
const UNKNOWN = { streamId: undefined, state: undefined, sessionId: undefined }

describe('mcp-streams:created and mcp-streams:completed', () => {
  it('frame a call that goes well', async () => {
    const all = everything()
    const { response, id } = await called(answers)
    await response.ended
    expect(all).toEqual([
      ['created', about(id, 'live')],
      ['completed', about(id, 'completed')]
    ])
  })

  it('are heard for the calls of the official SDK, with their session', async () => {
    const all = everything()
    const { url } = await serve(sdkV1Stateful())
    const { headers, sessionId } = await initializeSession(url, '2025-11-25')
    await ended(post(url, callTool(1, 'slow', { ms: 1 }), headers))
    expect(all.map(([name]) => name)).toEqual(['created', 'completed', 'created', 'completed'])
    expect(all.map(([, message]) => message)).toEqual(
      Array(4).fill(expect.objectContaining({ sessionId }))
    )
  })

  it('are not heard for a response that is left alone', async () => {
    const all = everything()
    const { url } = await serve(rawEndpoint(answers))
    await ended(post(url, callTool(1, 'x'), headersFor({ version: '2026-07-28' })))
    expect(all).toEqual([])
  })
})

describe('mcp-streams:resumed and mcp-streams:taken-over', () => {
  it('tell a client that comes back from one whose older connection was still there', async () => {
    const all = everything()
    const { response, own, url, id, streams } = await called(holds)
    const second = await get(own, headers)
    await response.ended
    second.destroy()
    await until(() => streams.stats().connections === 0)
    await get(url, { ...headers, 'last-event-id': `${id}.0.1` })
    expect(all.slice(1)).toEqual([
      ['resumed', about(id, 'live')],
      ['taken-over', about(id, 'live')],
      ['connection-lost', about(id, 'live')],
      ['resumed', { ...about(id, 'live'), delay: expect.any(Number) }]
    ])
  })

  it('also of a finished stream', async () => {
    const all = everything()
    const { response, own, id } = await called(answers)
    await response.ended
    await get(own, headers)
    expect(all.at(-1)).toEqual(['resumed', about(id, 'completed')])
  })
})

describe('mcp-streams:failed', () => {
  it.each<[reason: string, script: RawScript, options: McpStreamsOptions]>([
    [
      'no-response',
      ({ open, res }) => {
        open()
        res.end()
      },
      {}
    ],
    [
      'event-too-large',
      ({ write }) => {
        write(`data: ${'x'.repeat(5000)}\n\n`)
      },
      { maxBytes: 4096 }
    ]
  ])('says why: %s', async (reason, script, options) => {
    const failed = happenings('failed')
    const errors: unknown[] = []
    const onError: McpStreamsOptions['onError'] = (error, context) => errors.push([error, context])
    const { id } = await called(script, { ...options, onError })
    expect(await failed.nth(1)).toEqual(about(id, 'failed', reason))
    expect(errors).toEqual([
      [expect.objectContaining({ name: 'StreamError', code: reason }), { streamId: id }]
    ])
  })

  it('is what an ended session means for its calls', async () => {
    const failed = happenings('failed')
    const { url, id } = await called(({ message, open, res }) =>
      message.id === 1 ? open() : res.writeHead(404).end()
    )
    await post(url, callTool(2, 'x'), headers)
    expect(await failed.nth(1)).toEqual(about(id, 'failed', 'session-ended'))
  })
})

describe('mcp-streams:cancelled', () => {
  it.each<[how: string, send: (call: Awaited<ReturnType<typeof called>>) => Promise<unknown>]>([
    ['DELETE of the stream URL', ({ own }) => del(own, headers)],
    ['notifications/cancelled', ({ url }) => post(url, cancelled(1), headers)],
    ['the end of the session', ({ url }) => del(url, headers)]
  ])('is the end of a call by %s, and no error', async (_how, send) => {
    const all = everything()
    const errors: unknown[] = []
    const script: RawScript = ({ message, open, res }) =>
      message?.id === 1 ? open() : res.writeHead(200).end()
    const call = await called(script, { onError: error => errors.push(error) })
    await send(call)
    await call.endpoint.calls[0]!.closed
    expect(all.slice(1)).toEqual([['cancelled', about(call.id, 'cancelled')]])
    expect(errors).toEqual([])
  })
})

describe('mcp-streams:abandoned', () => {
  it('tells of a client that did not come back', async () => {
    const abandoned = happenings('abandoned')
    const { response, id } = await called(holds, { resumeInterval: { max: 0.02 } })
    response.destroy()
    expect(await abandoned.nth(1)).toEqual(about(id, 'abandoned', 'abandoned'))
  })
})

describe('mcp-streams:evicted and mcp-streams:refused', () => {
  it('tell of a finished stream that made room, and of what came of it', async () => {
    const all = everything()
    const { response, own, url, id } = await called(answers, { maxStreams: 1 })
    await response.ended
    await ended(post(url, callTool(2, 'x'), headers))
    expect(all.slice(2).map(([name]) => name)).toEqual(['evicted', 'created', 'completed'])
    expect(all[2]).toEqual(['evicted', about(id, 'completed')])
    await supertest(own).get('').expect(410)
    expect(all.at(-1)).toEqual(['refused', { ...UNKNOWN, reason: 'stream-expired' }])
    await get(url, { ...headers, 'last-event-id': `${id}.0.1` })
    expect(all.at(-1)).toEqual(['refused', { ...UNKNOWN, reason: 'stream-expired' }])
    const told = all.length
    await post(url, request(3, 'stream/resume', { streamId: id }), headers)
    expect(all.slice(told)).toEqual([['refused', { ...UNKNOWN, reason: 'stream-expired' }]])
  })

  it('tell of a response that found no room', async () => {
    const refused = happenings('refused')
    const { url } = await called(holds, { maxStreams: 1 })
    await post(url, callTool(2, 'x'), headers)
    expect(refused).toEqual([{ ...UNKNOWN, reason: 'full' }])
  })

  it('tell of those who asked for a stream that is not theirs', async () => {
    const refused = happenings('refused')
    const { own } = await called(holds)
    await get(own, headersFor({ auth: 'x' }))
    await get(own, headersFor({ origin: 'https://evil.example' }))
    expect(refused.map(({ reason }) => reason)).toEqual(['stream-unknown', 'foreign-origin'])
    // Whose it is, a subscriber need not know either.
    expect(refused.map(({ streamId }) => streamId)).toEqual([undefined, undefined])
  })
})
