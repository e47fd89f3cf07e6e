// A tool that asks its client five things, and the official client 1.x with `resumableFetch` that
// calls it, behind a proxy that cuts.

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
import { connectV1 } from '../../helpers/clients.js'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { closeLater, type Handler } from '../../helpers/listen.js'
import { serve } from '../../helpers/serve.js'
import { SPEC_OPTIONS } from './setups.js'

export const SERVER: McpStreamsOptions = { retry: 2, resumeInterval: { min: 0 } }
const requestedSchema = { type: 'object', properties: { answer: { type: 'string' } } } as const

/**
 * A booking that asks where and when, one after the other, and then three things at once. Counts
 * what it was asked to do.
 */
export function bookings() {
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

export async function running(
  server: McpStreamsOptions = {},
  connect: typeof connectV1 = connectV1
) {
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

/** What a booking comes to. */
export const booked = (key: string) => [
  `${key} where!`,
  `${key} when!`,
  `${key} seat!`,
  'sampled',
  'error -32001'
]

/** The POST of a client's answers. */
export const isAnswer = ({ method, url }: { method: string; url: string }): boolean =>
  method === 'POST' && url.includes('stream=')
