// The official clients and endpoints, with `callResumable`: at each revision, with JSON responses
// and with event streams.

import { describe, expect, it } from '@jest/globals'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { callResumable, resumableFetch } from '../../../lib/client/index.js'
import { currentStream } from '../../../lib/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { serve } from '../../helpers/serve.js'
import { SOON } from './setup.js'

const resumeTokens = { after: SOON }
type Progress = { progress: number }

const onContext = async (): Promise<string> => {
  for (const page of [1, 2])
    currentStream()!.partial({ content: [{ type: 'text', text: `page ${page}` }] })
  await new Promise(resolve => setTimeout(resolve, 2 * SOON))
  return 'page 3'
}

const SETUPS = {
  'client 1.x, stateful, JSON': async () => {
    const endpoint = sdkV1Stateful({ onContext, enableJsonResponse: true })
    return { endpoint, connect: (url: string) => connectV1(url) }
  },
  'client 1.x, stateful, event streams': async () => {
    const endpoint = sdkV1Stateful({ onContext })
    return { endpoint, connect: (url: string) => connectV1(url) }
  },
  'client 1.x at 2025-06-18, stateless': async () => {
    const endpoint = sdkV1Stateless({ onContext })
    return { endpoint, connect: (url: string) => connectV1(url, { version: '2025-06-18' }) }
  },
  'client 1.x with resumableFetch, event streams': async () => {
    const endpoint = sdkV1Stateful({ onContext })
    return { endpoint, connect: (url: string) => connectV1(url, { fetch: resumableFetch() }) }
  },
  'client 2.x, stateful at 2025-11-25': async () => {
    const endpoint = sdkV2Stateful({ onContext })
    return { endpoint, connect: (url: string) => connectV2(url, { era: '2025-11-25' }) }
  },
  'client 2.x at 2026-07-28': async () => {
    const endpoint = sdkV2Handler({ onContext })
    return { endpoint, connect: (url: string) => connectV2(url) }
  },
  'client 2.x at 2026-07-28 with resumableFetch': async () => {
    const endpoint = sdkV2Handler({ onContext, responseMode: 'sse' })
    return { endpoint, connect: (url: string) => connectV2(url, { fetch: resumableFetch() }) }
  }
}

describe.each(Object.entries(SETUPS))('%s', (name, setup) => {
  it('gets the result of a tool that takes long, from one execution', async () => {
    const { endpoint, connect } = await setup()
    const { url, streams } = await serve(endpoint, { resumeTokens })
    const { client, errors } = await connect(url)
    const request = {
      method: 'tools/call',
      params: { name: 'slow', arguments: { key: 'a', ms: 4 * SOON } }
    }
    const result = await callResumable(client, request)
    expect(result['content']).toEqual([{ type: 'text', text: 'slow but sure' }])
    expect(endpoint.log.executions('a')).toBe(1)
    expect(errors).toEqual([])
    expect(streams.stats().refusals).toBe(0)
  })

  it('collects a result in pages', async () => {
    const { endpoint, connect } = await setup()
    const { url } = await serve(endpoint, { resumeTokens })
    const { client } = await connect(url)
    const pages: unknown[] = []
    const result = await callResumable(
      client,
      { method: 'tools/call', params: { name: 'context', arguments: { key: 'a' } } },
      { onPartial: ({ content }) => pages.push(content), wait: 20 }
    )
    expect(pages).toEqual([1, 2].map(page => [{ type: 'text', text: `page ${page}` }]))
    expect(result['content']).toEqual([{ type: 'text', text: '"page 3"' }])
    expect(endpoint.log.executions('a')).toBe(1)
  })

  if (!name.includes('JSON'))
    it('hears of progress on every connection', async () => {
      const { endpoint, connect } = await setup()
      const { url } = await serve(endpoint, { resumeTokens })
      const { client, errors } = await connect(url)
      const steps: number[] = []
      const result = await callResumable(
        client,
        {
          method: 'tools/call',
          params: { name: 'count', arguments: { key: 'a', n: 8, delayMs: SOON / 2 } }
        },
        { onprogress: ({ progress }: Progress) => steps.push(progress) }
      )
      expect(result['content']).toEqual([{ type: 'text', text: 'counted to 8' }])
      expect(steps).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
      expect(endpoint.log.executions('a')).toBe(1)
      expect(errors).toEqual([])
    })

  it('ends the call when its caller does not want it any more', async () => {
    const { endpoint, connect } = await setup()
    const { url } = await serve(endpoint, {
      resumeTokens: { after: 1000 },
      resumeInterval: { max: 0.2 }
    })
    const { client } = await connect(url)
    const controller = new AbortController()
    const request = { method: 'tools/call', params: { name: 'hang', arguments: { key: 'a' } } }
    const result = callResumable(client, request, { signal: controller.signal })
    const call = await endpoint.log.calls.nth(1)
    controller.abort(new Error('enough'))
    await expect(result).rejects.toThrow('enough')
    await endpoint.log.ended.nth(1)
    expect(call.signal.aborted).toBe(true)
  })

  it('gets the error of a tool that fails, and that of one that does not exist', async () => {
    const { endpoint, connect } = await setup()
    const { url } = await serve(endpoint, { resumeTokens })
    const { client } = await connect(url)
    const call = (tool: string) =>
      callResumable(client, {
        method: 'tools/call',
        params: { name: tool, arguments: { key: 'a' } }
      })
    expect(await call('fail')).toMatchObject({ isError: true })
    const missing = await call('missing').catch((error: unknown) => error)
    expect(
      missing instanceof Error
        ? (missing as never as { code: number }).code
        : (missing as { isError: boolean }).isError
    ).toBeTruthy()
  })
})

describe('a tool that asks its client', () => {
  const onElicit = () => ({ action: 'accept' as const, content: { answer: 'Ada' } })
  it.each([
    ['1.x', (url: string) => connectV1(url, { onElicit })],
    [
      '1.x with resumableFetch',
      (url: string) => connectV1(url, { onElicit, fetch: resumableFetch() })
    ],
    ['2.x', (url: string) => connectV2(url, { onElicit, era: '2025-11-25' })]
  ])('gets its answer, from client %s', async (_name, connect) => {
    const endpoint = sdkV1Stateful()
    const { url } = await serve(endpoint, { resumeTokens })
    const { client } = await connect(url)
    const request = { method: 'tools/call', params: { name: 'elicit', arguments: { key: 'a' } } }
    const result = await callResumable(client, request)
    expect(JSON.stringify(result['content'])).toContain('Ada')
    expect(endpoint.log.executions('a')).toBe(1)
  })
})

describe('a client that checks', () => {
  it('accepts a result in the meantime by the schema of its SDK', async () => {
    const endpoint = sdkV1Stateful({ enableJsonResponse: true })
    const { url } = await serve(endpoint, { resumeTokens })
    const { client } = await connectV1(url)
    const params = {
      name: 'slow',
      arguments: { key: 'a', ms: 4 * SOON },
      _meta: { resumeToken: null }
    }
    const first = await client.callTool(params)
    expect(first).toMatchObject({ content: [], _meta: { nextResumeToken: expect.any(String) } })
    const result = await callResumable(
      client,
      { method: 'tools/call', params: { name: 'slow', arguments: { key: 'b', ms: 4 * SOON } } },
      { resultSchema: CallToolResultSchema }
    )
    expect(result['content']).toEqual([{ type: 'text', text: 'slow but sure' }])
  })

  it('an `outputSchema` refuses it in `callTool`, and not in `callResumable`, with both versions', async () => {
    const outputSchema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
    const endpoint = rawEndpoint(
      ({ res, message, result }) => {
        if (message.method === 'tools/list')
          return result({ tools: [{ name: 'sum', inputSchema: { type: 'object' }, outputSchema }] })
        if (message.method !== 'tools/call') return res.writeHead(405).end()
        return setTimeout(() => result({ content: [], structuredContent: { n: 42 } }), 3 * SOON)
      },
      { stateless: true }
    )
    const { url } = await serve(endpoint, { resumeTokens })
    for (const connect of [connectV1, (url: string) => connectV2(url, { era: '2025-11-25' })]) {
      const { client } = await connect(url)
      await client.listTools()
      await expect(
        client.callTool({ name: 'sum', _meta: { resumeToken: null } } as never)
      ).rejects.toThrow('output schema')
      const result = await callResumable(client, { method: 'tools/call', params: { name: 'sum' } })
      expect(result['structuredContent']).toEqual({ n: 42 })
    }
    await Promise.all(
      endpoint.calls
        .filter(({ message }) => message?.method === 'tools/call')
        .map(({ closed }) => closed)
    )
  })
})

describe('a server without tokens', () => {
  it('is called like any other', async () => {
    for (const endpoint of [sdkV1Stateful(), sdkV2Stateful()]) {
      const { url } = await serve(endpoint, { resumeTokens: false })
      const { client } = await connectV1(url)
      const request = {
        method: 'tools/call',
        params: { name: 'slow', arguments: { key: 'a', ms: 2 * SOON } }
      }
      expect((await callResumable(client, request))['content']).toEqual([
        { type: 'text', text: 'slow but sure' }
      ])
    }
  })
})
