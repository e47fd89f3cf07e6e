// `callResumable` towards a server that goes by the Resuming draft to the letter: it offers tokens
// by itself, knows no member of
// `_meta` but those of the draft and of the specification, and takes a repeated request only where
// nothing but its token has changed.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { isDeepStrictEqual } from 'node:util'
import { callResumable, resumableFetch } from '../../../lib/client/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { listen } from '../../helpers/listen.js'
import type { Json } from '../../helpers/open-stream.js'

interface Seen {
  readonly params: Json
  readonly prefer: string | undefined
}

/**
 * Answers each call three times: with two parts and the last one, and a report of progress before
 * each.
 */
async function serveStrictly(): Promise<{ url: string; calls: Seen[]; others: Seen[] }> {
  const calls: Seen[] = []
  const others: Seen[] = []
  const begun = new Map<string, { params: Json; step: number }>()
  const answerTo = ({ method, params = {} }: Json): Json => {
    if (method === 'initialize') {
      const { protocolVersion } = params
      return {
        result: {
          protocolVersion,
          capabilities: { tools: {} },
          serverInfo: { name: 'strict', version: '1' }
        }
      }
    }
    if (method !== 'tools/call') return { result: { tools: [] } }
    const { _meta: { resumeToken, ...meta } = {} as Json, ...rest } = params
    const invalid = { error: { code: -32602, message: 'Invalid params' } }
    if (Object.keys(meta).some(name => name !== 'progressToken') || resumeToken === null)
      return invalid
    const plain = { ...rest, meta }
    const call = resumeToken === undefined ? { params: plain, step: 0 } : begun.get(resumeToken)
    if (call === undefined || !isDeepStrictEqual(plain, call.params)) return invalid
    begun.delete(resumeToken)
    const step = call.step + 1
    const text = { content: [{ type: 'text', text: `${rest.name} ${step}` }] }
    if (step === 3) return { result: text, step }
    begun.set(`${rest.name}:${step}`, { params: plain, step })
    return { result: { ...text, _meta: { nextResumeToken: `${rest.name}:${step}` } }, step }
  }
  const app = express().use(express.json())
  app.post('/mcp', (req, res) => {
    const { id, params } = req.body as Json
    if (id === undefined) return void res.status(202).end()
    const { step, ...answer } = answerTo(req.body)
    ;(step === undefined ? others : calls).push({ params, prefer: req.get('prefer') })
    const response = { jsonrpc: '2.0', id, ...answer }
    const progressToken = params?._meta?.progressToken
    if (progressToken === undefined) return void res.json(response)
    const progress = {
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken, progress: step }
    }
    const events = [progress, response].map(message => `data: ${JSON.stringify(message)}\n\n`)
    res.type('text/event-stream').end(events.join(''))
  })
  app.get('/mcp', (_req, res) => void res.status(405).end())
  const { url } = await listen(app)
  return { url: `${url}/mcp`, calls, others }
}

type Connect = (url: string) => Promise<{
  client: Parameters<typeof callResumable>[0] & { listTools(): Promise<unknown> }
  transport: object
  errors: Error[]
}>
const CLIENTS: [string, Connect][] = [
  ['1.x', url => connectV1(url)],
  ['1.x with resumableFetch', url => connectV1(url, { fetch: resumableFetch() })],
  ['2.x', url => connectV2(url, { era: '2025-11-25' })]
]

describe.each(CLIENTS)('client %s', (_name, connect) => {
  it('begins as usual, changes the token alone, and hears of progress on every request', async () => {
    const { url, calls } = await serveStrictly()
    const { client, errors } = await connect(url)
    const steps: number[] = []
    const pages: unknown[] = []
    const result = await callResumable(
      client,
      { method: 'tools/call', params: { name: 'report', arguments: { year: 2025 } } },
      {
        wait: 4500,
        onprogress: ({ progress }: { progress: number }) => steps.push(progress),
        onPartial: ({ content }) => pages.push(content)
      }
    )
    expect(result['content']).toEqual([{ type: 'text', text: 'report 3' }])
    expect(pages).toHaveLength(2)
    expect(steps).toEqual([1, 2, 3])
    const [{ params }] = calls as [Seen]
    expect(Object.keys(params['_meta'])).toEqual(['progressToken'])
    for (const { prefer } of calls) expect(prefer).toContain('respond-async, wait=4')
    expect(errors).toEqual([])
  })

  it('sends no `_meta` where there is nothing to say, and asks for no other request', async () => {
    const { url, calls, others } = await serveStrictly()
    const { client, transport, errors } = await connect(url)
    const before = Object.getOwnPropertyDescriptors(transport)
    const call = (tool: string) =>
      callResumable(client, { method: 'tools/call', params: { name: tool } })
    const results = await Promise.all([call('a'), call('b'), client.listTools(), call('c')])
    expect(results.map(result => (result as Json)['content']?.[0].text)).toEqual([
      'a 3',
      'b 3',
      undefined,
      'c 3'
    ])
    expect(calls.filter(({ params }) => params['_meta'] === undefined)).toHaveLength(3)
    expect(calls.every(({ prefer }) => prefer?.includes('respond-async'))).toBe(true)
    expect(others.some(({ prefer }) => prefer?.includes('respond-async'))).toBe(false)
    // Nothing of ours stays behind.
    const after = Object.getOwnPropertyDescriptors(transport) as Record<string, PropertyDescriptor>
    for (const member of ['send', 'onmessage', '_fetch'])
      expect(after[member]?.value).toBe((before as typeof after)[member]?.value)
    expect(errors).toEqual([])
  })
})
