// The official client with `resumableFetch`, asked things in the middle of a call, over wires that
// are cut: it never notices.

import { describe, expect, it } from '@jest/globals'
import {
  CreateMessageRequestSchema,
  ListRootsRequestSchema
} from '@modelcontextprotocol/sdk/types.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { resumableFetch } from '../../../lib/client/index.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { createCutProxy, type CutBy, type Direction, type Plan } from '../../helpers/cut-proxy.js'
import { closeLater, type Handler } from '../../helpers/listen.js'
import { serve } from '../../helpers/serve.js'
import { SPEC_OPTIONS } from './setups.js'

const SERVER: McpStreamsOptions = { retry: 2, resumeInterval: { min: 0 }, handoffQuiet: 5 }
const requestedSchema = { type: 'object', properties: { answer: { type: 'string' } } } as const

/**
 * A booking that asks where and when, one after the other, and then three things at once. Counts
 * what it was asked to do.
 */
function bookings() {
  const runs = new Map<string, number>()
  const transports = new Map<string, StreamableHTTPServerTransport>()
  const start = async () => {
    const mcp = new McpServer(
      { name: 'bookings', version: '1.0.0' },
      { capabilities: { logging: {} } }
    )
    mcp.registerTool(
      'book',
      { inputSchema: { key: z.string() } },
      async ({ key }, { sendNotification, sendRequest }) => {
        runs.set(key, (runs.get(key) ?? 0) + 1)
        const ask = async (message: string) => {
          const params = { message, requestedSchema }
          const { content } = await sendRequest({ method: 'elicitation/create', params }, ELICITED)
          return content?.['answer'] ?? 'nothing'
        }
        const where = await ask(`${key} where`)
        await sendNotification({
          method: 'notifications/message',
          params: { level: 'info', data: `${key} asks on` }
        })
        const when = await ask(`${key} when`)
        const [seat, sample, roots] = await Promise.all([
          ask(`${key} seat`),
          sendRequest(
            { method: 'sampling/createMessage', params: { messages: [], maxTokens: 9 } },
            z.object({ content: z.object({ text: z.string() }) })
          ).then(({ content }) => content.text),
          sendRequest({ method: 'roots/list' }, z.object({ roots: z.array(z.unknown()) })).catch(
            ({ code }: { code: number }) => `error ${code}`
          )
        ])
        return {
          content: [{ type: 'text', text: JSON.stringify([where, when, seat, sample, roots]) }]
        }
      }
    )
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => void transports.set(id, transport)
    })
    await mcp.connect(transport as Parameters<McpServer['connect']>[0])
    closeLater(() => mcp.close())
    return transport
  }
  const handler: Handler = async (req, res) => {
    const transport = transports.get(String(req.headers['mcp-session-id'])) ?? (await start())
    await transport.handleRequest(req, res)
  }
  return { handler, runs }
}
const ELICITED = z.object({
  action: z.string(),
  content: z.record(z.string(), z.string()).optional()
})

interface Wire {
  method: string
  url: string
  answers: number
}

async function running(server: McpStreamsOptions = {}, connect: typeof connectV1 = connectV1) {
  const { handler, runs } = bookings()
  const { url: direct, streams } = await serve(handler, { ...SERVER, ...server })
  const proxy = await createCutProxy({ target: Number(new URL(direct).port) })
  const asked: string[] = []
  const fetch = resumableFetch(SPEC_OPTIONS)
  const { client, errors } = await connect(`${proxy.url}/mcp`, {
    fetch,
    capabilities: { elicitation: {}, sampling: {}, roots: {} },
    onElicit: async ({ message }) => {
      asked.push(message)
      return { action: 'accept', content: { answer: `${message}!` } }
    }
  })
  client.setRequestHandler(CreateMessageRequestSchema, () => ({
    model: 'm',
    role: 'assistant' as const,
    content: { type: 'text' as const, text: 'sampled' }
  }))
  client.setRequestHandler(ListRootsRequestSchema, () => {
    throw Object.assign(new Error('no roots'), { code: -32001 })
  })
  await proxy.nthRequest(3)
  const book = async (key: string) => {
    const { content } = (await (client as Client).callTool({
      name: 'book',
      arguments: { key }
    })) as {
      content: { text: string }[]
    }
    return JSON.parse(content[0]!.text) as unknown
  }
  const wire = (): Wire[] =>
    proxy.passages.slice(3).map(({ method, url, message }) => {
      const messages = ([] as { method?: string }[]).concat(
        (message as { method?: string } | undefined) ?? []
      )
      return {
        method,
        url: url.replace(/[\w-]{21}/, 'ID'),
        answers: messages.filter(one => one.method === undefined).length
      }
    })
  return { book, proxy, runs, asked, streams, errors, wire }
}

const booked = (key: string) => [
  `${key} where!`,
  `${key} when!`,
  `${key} seat!`,
  'sampled',
  'error -32001'
]

describe('a call that asks its client five things', () => {
  it.each(['2025-06-18', '2025-11-25'] as const)(
    'is answered in three turns, client 1.x at %s',
    async version => {
      const { book, wire, streams, errors, runs } = await running({}, (url, options) =>
        connectV1(url, { ...options, version })
      )
      expect(await book('k')).toEqual(booked('k'))
      expect(runs.get('k')).toBe(1)
      expect(errors).toEqual([])
      const posts = wire().filter(({ method, url }) => method === 'POST' && url.includes('stream='))
      expect(posts.map(({ answers }) => answers)).toEqual([1, 1, 3])
      expect(wire().filter(({ url, answers }) => !url.includes('stream=') && answers > 0)).toEqual(
        []
      )
      expect(streams.stats()).toMatchObject({ live: 1, waiting: 0 })
    }
  )

  it('is answered at the endpoint where the server does not hand off', async () => {
    const { book, wire } = await running({ handoff: 'never' })
    expect(await book('k')).toEqual(booked('k'))
    expect(wire().filter(({ url }) => url.includes('stream=')).length).toBe(0)
    expect(wire().filter(({ answers }) => answers > 0).length).toBe(5)
  })

  it('is one of forty at once over one client', async () => {
    const { book, runs } = await running()
    const keys = Array.from({ length: 40 }, (_, i) => `call ${i}`)
    expect(await Promise.all(keys.map(book))).toEqual(keys.map(booked))
    expect([...runs.values()]).toEqual(keys.map(() => 1))
  })

  it('is answered the same way by client 2.x at 2025-11-25', async () => {
    const { handler, runs } = bookings()
    const { url } = await serve(handler, SERVER)
    const { client } = await connectV2(url, {
      era: '2025-11-25',
      fetch: resumableFetch(SPEC_OPTIONS),
      onElicit: async ({ message }) => ({ action: 'accept', content: { answer: `${message}!` } })
    })
    const { content } = (await client
      .callTool({ name: 'book', arguments: { key: 'k' } })
      .catch(error => error)) as {
      content: { text: string }[]
    }
    // Sampling is not among its capabilities: the endpoint hears that as an answer too.
    expect(content[0]!.text).toMatch(/-32601|not support/i)
    expect(runs.get('k')).toBe(1)
  })
})

describe('the POST of the answers, cut', () => {
  const KINDS: CutBy[] = ['fin', 'rst']

  it.each<Direction>(['request', 'response'])(
    'at every byte of the %s: each question is asked and answered once',
    async direction => {
      const { book, proxy, runs, asked } = await running()
      const isAnswer = ({ method, url }: { method: string; url: string }) =>
        method === 'POST' && url.includes('stream=')
      await book('measure')
      const sizes = proxy.passages.filter(isAnswer).map(({ bytes }) => bytes[direction])
      asked.length = 0
      const largest = Math.min(Math.max(...sizes), 2500)
      let offset = 0
      const turns = new Set<string>()
      // The POST of each turn is cut once.
      const plan: Plan = request => {
        if (!isAnswer(request) || turns.has(request.url) || offset >= largest) return undefined
        turns.add(request.url)
        const afterBytes = offset++
        return { by: KINDS[afterBytes % 2]!, direction, afterBytes }
      }
      proxy.plan = plan
      let n = 0
      while (offset < largest) {
        const keys = Array.from({ length: 8 }, () => `call ${n++}`)
        expect(await Promise.all(keys.map(book))).toEqual(keys.map(booked))
      }
      expect([...runs.values()].every(count => count === 1)).toBe(true)
      expect(new Set(asked).size).toBe(asked.length)
    },
    180_000
  )
})
