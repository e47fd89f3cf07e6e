// The official SDK's endpoint, unchanged: what its tools ask reaches clients that follow SEP-1335
// and clients that never heard of it.

import { describe, expect, it } from '@jest/globals'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema
} from '@modelcontextprotocol/sdk/types.js'
import express, { type Request, type RequestHandler, type Response } from 'express'
import { connectV1 } from '../../helpers/clients.js'
import { Awaitable, gate } from '../../helpers/gate.js'
import { happenings, until } from '../../helpers/happenings.js'
import { type Handler } from '../../helpers/listen.js'
import { headersFor, initializeSession } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { QUICK } from './asking.js'
import {
  callRun,
  CAPABILITIES,
  OUTCOMES,
  outcomeOf,
  QUESTIONS,
  REPLIES,
  reply,
  type RunName,
  sdkThatAsks,
  TURNS
} from './sdk-v1.js'
import { SepClient } from './sep-client.js'

const RUNS = Object.keys(OUTCOMES) as RunName[]
const parseJson = express.json()

/** The endpoint, and every answer that reaches it. */
async function asking(options = {}, inFront: RequestHandler[] = []) {
  const answers = new Awaitable<Json>()
  const endpoint = sdkThatAsks()
  const watched: Handler = (req, res) =>
    parseJson(req as Request, res as Response, () => {
      const { body } = req as Request
      if (body?.method === undefined && body?.id !== undefined) answers.push(body)
      void endpoint(req, res)
    })
  const served = await serve(watched, { ...QUICK, ...options }, inFront)
  return { ...served, endpoint, answers }
}

const connections = ({
  server
}: {
  server: { getConnections(done: (error: unknown, count: number) => void): void }
}) => new Promise<number>(resolve => server.getConnections((_error, count) => resolve(count)))

const CLIENTS: [name: string, headers: Record<string, string>, options: object][] = [
  ['that announces itself', headersFor({ prefer: 'rel=stream' }), {}],
  ['that says nothing of itself', {}, { handoffAfter: 20 }]
]

describe.each(CLIENTS)('a client written from the text of SEP-1335 %s', (_name, own, options) => {
  it.each(RUNS)('answers %s', async run => {
    const { url, answers } = await asking(options)
    const { headers } = await initializeSession(url, '2025-11-25', own, CAPABILITIES)
    const client = new SepClient(url, { headers, answer: reply })
    const call = await client.call(callRun(1, run))
    expect(outcomeOf(call.response.result)).toEqual(OUTCOMES[run])
    const turns = Array.from({ length: TURNS[run] }, () => ['GET 204', 'answers 200']).flat()
    expect(call.trace).toEqual(['call 200', ...turns])
    expect(new Set(call.links).size).toBe(TURNS[run] + 1)
    // Each as the message that an old client would have sent, once.
    const asked = call.messages.filter(({ method }) => method !== 'ping')
    expect(answers.map(({ id }) => id)).toEqual(asked.map(({ id }) => id))
    expect(answers).toHaveLength(QUESTIONS[run])
  })

  it('may take its time: the server holds no connection meanwhile, for no call of it', async () => {
    const served = await asking(options)
    const { headers } = await initializeSession(served.url, '2025-11-25', own, CAPABILITIES)
    const human = gate()
    const client = new SepClient(served.url, {
      headers,
      answer: async request => {
        await human.opened
        return reply(request)
      }
    })
    const waiting = happenings('waiting')
    const calls = [1, 2, 3].map(id => client.call(callRun(id, 'three turns')))
    await waiting.nth(3)
    await until(() => served.streams.stats().connections === 0)
    while ((await connections(served)) > 0) await new Promise(setImmediate)
    expect(served.streams.stats()).toMatchObject({ live: 0, waiting: 3, connections: 0 })
    human.open()
    for (const { response } of await Promise.all(calls))
      expect(outcomeOf(response.result)).toEqual(OUTCOMES['three turns'])
    expect(served.streams.stats()).toMatchObject({ live: 0, waiting: 0, connections: 0 })
  })

  it('may answer with an error', async () => {
    const { url } = await asking(options)
    const { headers } = await initializeSession(url, '2025-11-25', own, CAPABILITIES)
    const answer = ({ id }: Json) => ({
      jsonrpc: '2.0',
      id,
      error: { code: -1, message: 'No user here' }
    })
    const { response } = await new SepClient(url, { headers, answer }).call(callRun(1, 'once'))
    expect(response.result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('No user here') }]
    })
  })

  it('may send one answer as it is, without an array around it', async () => {
    const { url } = await asking(options)
    const { headers } = await initializeSession(url, '2025-11-25', own, CAPABILITIES)
    const { response } = await new SepClient(url, { headers, answer: reply, single: true }).call(
      callRun(1, 'three turns')
    )
    expect(outcomeOf(response.result)).toEqual(OUTCOMES['three turns'])
  })

  it('may do without event ids', async () => {
    const { url, answers } = await asking(options)
    const { headers } = await initializeSession(url, '2025-11-25', own, CAPABILITIES)
    const client = new SepClient(url, { headers, answer: reply, withoutIds: true })
    const { response, trace } = await client.call(callRun(1, 'three turns'))
    expect(outcomeOf(response.result)).toEqual(OUTCOMES['three turns'])
    expect(trace.slice(0, 4)).toEqual(['call 200', 'GET 200', 'GET 204', 'answers 200'])
    expect(answers).toHaveLength(3)
  })
})

describe('the official client, unmodified,', () => {
  const connect = async (
    url: string,
    wait: () => Promise<unknown>,
    version: '2025-06-18' | '2025-11-25' = '2025-11-25'
  ) => {
    const requests: string[] = []
    const connected = await connectV1(url, {
      version,
      capabilities: CAPABILITIES,
      fetch: async (target, init) => {
        const response = await fetch(target, init)
        requests.push(
          `${init?.method ?? 'GET'} ${new URL(String(target)).search}${response.status}`
        )
        return response
      }
    })
    const { client } = connected
    client.setRequestHandler(
      ElicitRequestSchema,
      async ({ method, params }) => (await wait(), REPLIES[method]!(params))
    )
    client.setRequestHandler(
      CreateMessageRequestSchema,
      async ({ method }) => (await wait(), REPLIES[method]!({}))
    )
    client.setRequestHandler(
      ListRootsRequestSchema,
      async ({ method }) => (await wait(), REPLIES[method]!({}))
    )
    return { ...connected, requests }
  }

  it.each(RUNS)('answers %s at the endpoint, as ever', async run => {
    const { url, answers, streams } = await asking()
    const waiting = happenings('waiting')
    const { client, requests, errors } = await connect(url, async () => {})
    const value = await client.callTool(callRun(1, run).params)
    expect(outcomeOf(value)).toEqual(OUTCOMES[run])
    expect(answers).toHaveLength(QUESTIONS[run])
    expect(errors).toEqual([])
    expect(waiting).toHaveLength(0)
    // `notifications/initialized`, the answer to our ping, and those to the questions.
    expect(requests.filter(text => text === 'POST 202')).toHaveLength(QUESTIONS[run] + 2)
    expect(streams.stats()).toMatchObject({ waiting: 0, live: 1 })
  })

  it.each(['2025-06-18', '2025-11-25'] as const)('stays connected at %s', async version => {
    const { url, streams } = await asking({ handoffAfter: 1 })
    const human = gate()
    const { client, errors } = await connect(url, () => human.opened, version)
    const value = client.callTool(callRun(1, 'once').params)
    setTimeout(human.open, 50)
    expect(outcomeOf(await value)).toBe('first')
    expect(errors).toEqual([])
    expect(streams.stats()).toMatchObject({ resumes: 0 })
  })
})
