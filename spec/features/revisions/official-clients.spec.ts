// The official clients, unmodified, at every revision that they can be pinned to: nothing that they
// get makes them complain.

import { describe, expect, it } from '@jest/globals'
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { currentStream } from '../../../lib/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { Awaitable } from '../../helpers/gate.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'

const onElicit = () => ({ action: 'accept' as const, content: { answer: 'Ada' } })
/** Disconnects its client if that has shown that it comes back; none has here. */
const onContext = () => {
  currentStream()!.disconnect({ retry: 5 })
  return currentStream()!.state
}
const textOf = (result: Json): string => result.content[0].text

describe.each(['2025-03-26', '2025-06-18', '2025-11-25'] as const)('pinned to %s', version => {
  it('the v1 client gets its progress, its questions, its news and its results without an error', async () => {
    const endpoint = sdkV1Stateful({ onContext })
    const { url, streams } = await serve(endpoint, { retry: 20 })
    const { client, transport, errors } = await connectV1(url, { version, onElicit })
    const news = new Awaitable<unknown>()
    client.setNotificationHandler(
      LoggingMessageNotificationSchema,
      ({ params }) => void news.push(params.data)
    )

    const progress: unknown[] = []
    const onprogress = ({ message }: { message?: string | undefined }) => progress.push(message)
    const counted = await client.callTool({ name: 'count', arguments: { n: 3 } }, undefined, {
      onprogress
    })
    expect(textOf(counted)).toBe('counted to 3')
    expect(progress).toEqual(['1', '2', '3'])

    expect(
      JSON.parse(textOf(await client.callTool({ name: 'elicit', arguments: {} })))
    ).toMatchObject({
      content: { answer: 'Ada' }
    })

    await endpoint.sessions
      .get(transport.sessionId!)!
      .server.sendLoggingMessage({ level: 'info', data: 'news' })
    expect(await news.nth(1)).toBe('news')

    expect(textOf(await client.callTool({ name: 'context', arguments: {} }))).toBe('"live"')
    expect(streams.stats().resumes).toBe(0)

    expect((await client.callTool({ name: 'fail', arguments: {} })).isError).toBe(true)
    await transport.terminateSession()
    expect(errors).toEqual([])
  })

  it('the v2 client does too', async () => {
    const { url, streams } = await serve(sdkV2Stateful({ onContext }), { retry: 20 })
    const { client, errors } = await connectV2(url, { era: version, onElicit })
    const progress: unknown[] = []
    const onprogress = ({ message }: { message?: string | undefined }) => progress.push(message)
    expect(
      textOf(await client.callTool({ name: 'count', arguments: { n: 3 } }, { onprogress }))
    ).toBe('counted to 3')
    expect(progress).toEqual(['1', '2', '3'])
    expect(
      JSON.parse(textOf(await client.callTool({ name: 'elicit', arguments: {} })))
    ).toMatchObject({
      content: { answer: 'Ada' }
    })
    expect(textOf(await client.callTool({ name: 'context', arguments: {} }))).toBe('"live"')
    expect(streams.stats().resumes).toBe(0)
    expect(errors).toEqual([])
  })
})

describe('at 2026-07-28', () => {
  it('the v2 client is left alone', async () => {
    const states: unknown[] = []
    const endpoint = sdkV2Handler({
      responseMode: 'sse',
      onContext: () => states.push(currentStream())
    })
    const { url, streams } = await serve(endpoint)
    const { client, errors } = await connectV2(url, { onElicit })
    const progress: unknown[] = []
    const onprogress = ({ message }: { message?: string | undefined }) => progress.push(message)
    expect(
      textOf(await client.callTool({ name: 'count', arguments: { n: 3 } }, { onprogress }))
    ).toBe('counted to 3')
    expect(progress).toEqual(['1', '2', '3'])
    expect(
      JSON.parse(textOf(await client.callTool({ name: 'elicit', arguments: {} })))
    ).toMatchObject({
      content: { answer: 'Ada' }
    })
    await client.callTool({ name: 'context', arguments: {} })
    expect(states).toEqual([undefined])
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, resumes: 0 })
    expect(errors).toEqual([])
  })
})
