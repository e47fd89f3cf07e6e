// Bodies that would take long to be parsed, or compared: nobody waits for that. The endpoint gets
// every byte, and what is offered for calls is not offered for these.

import { describe, expect, it, jest } from '@jest/globals'
import express from 'express'
import { rawEndpoint, type RawCall, type RawScript } from '../../helpers/endpoints/raw.js'
import { headersFor } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'

const KEY = { 'idempotency-key': 'a-key-that-nobody-guesses' }
const HEADERS = headersFor({ version: '2025-11-25', prefer: 'rel=stream' })

const times = (count: number, text: string) => Array(count).fill(text).join()
const callWith = (args: string, meta = '{}') =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":${args},"_meta":${meta}}}`
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
const members = (count: number) =>
  `{${Array.from({ length: count }, (_, i) => `"k${i}":${i}`).join()}}`

/** Posts a text, as often as wanted, and says what came of it. */
async function send(
  body: string | Buffer,
  { headers = {}, script = answer, inFront = [] as express.RequestHandler[], count = 1 } = {}
) {
  const endpoint = rawEndpoint(script)
  const { url, streams } = await serve(endpoint, { resumeTokens: { after: 20 } }, inFront)
  const responses = []
  for (let i = 0; i < count; i++) {
    const all = { ...HEADERS, 'Content-Type': 'application/json', ...headers }
    const response = await openStream(url, { method: 'POST', headers: all, body })
    await response.ended
    responses.push(response)
  }
  return { responses, last: responses.at(-1)!, calls: endpoint.calls, streams }
}

const answer: RawScript = ({ res }: RawCall) =>
  void res
    .writeHead(200, { 'Content-Type': 'application/json' })
    .end('{"jsonrpc":"2.0","id":1,"result":{}}')
const answerAsEvent: RawScript = call => {
  call.open()
  call.result()
}

const LARGE = [
  ['of many members', members(60_000)],
  ['of many objects', `[${times(60_000, '{}')}]`],
  ['of many strings', `[${times(110_000, '""')}]`],
  ['of many numbers', `[${times(260_000, '1')}]`],
  ['of many levels', nested(100_000)]
] as const

describe('a request', () => {
  it.each(LARGE)('%s is for the endpoint to parse', async (_name, args) => {
    const body = callWith(args)
    const parse = jest.spyOn(JSON, 'parse')
    const seen: number[] = []
    const { last, calls } = await send(body, {
      headers: KEY,
      script: call => {
        seen.push(...parse.mock.calls.map(([text]) => text.length))
        return answer(call)
      }
    })
    parse.mockRestore()
    expect(last.status).toBe(200)
    expect(calls[0]!.body).toBe(body)
    // The endpoint's own.
    expect(seen.filter(length => length === body.length)).toHaveLength(1)
  })

  it.each(LARGE)('%s has a stream like any other', async (_name, args) => {
    const { last } = await send(callWith(args), { script: answerAsEvent })
    expect(last.headers['link']).toMatch(/rel="stream"/)
    expect(last.messages()).toMatchObject([{ id: 1, result: {} }])
  })

  it('of one long string is like any other', async () => {
    const { calls } = await send(callWith(`"${'{,'.repeat(1_000_000)}"`), {
      headers: KEY,
      count: 2
    })
    expect(calls).toHaveLength(1)
  })
})

describe('a batch of too many parts', () => {
  it('passes byte for byte, whatever is in it', async () => {
    const { last, streams } = await send(`[${callWith('1')},${times(60_000, '{}')}]`, {
      script: ({ res }) => {
        res.writeHead(200, { 'Content-Type': 'text/event-stream' })
        res.end('data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n')
      }
    })
    expect(last.headers['link']).toBeUndefined()
    expect(last.text).toBe('data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n')
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
  })

  it('passes soon where it was parsed in front', async () => {
    const asked = times(100_000, '{"jsonrpc":"2.0","id":1,"method":"a"}')
    const { last, streams } = await send(`[${asked}]`, {
      inFront: [express.json({ limit: '4mb' })],
      script: ({ res }) => void res.end('whatever')
    })
    expect(last.text).toBe('whatever')
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
  })
})

// A call has three levels of its own, and a few values and members.
const FINE = [
  ['100 levels', nested(97)],
  ['50,000 values', `[${times(49_980, '1')}]`],
  ['10,000 members', members(9980)]
] as const
const TOO_MUCH = [
  ['more levels', nested(101)],
  ['more values', `[${times(50_001, '1')}]`],
  ['more members', members(10_001)]
] as const

describe('a key', () => {
  it.each([...FINE, ...TOO_MUCH])('is heeded for a body of %s', async (_name, args) => {
    const { responses, calls } = await send(callWith(args), { headers: KEY, count: 2 })
    expect(calls).toHaveLength(1)
    expect(responses[1]!.text).toBe(responses[0]!.text)
  })

  const inFront = [express.json({ limit: '4mb' })]

  it.each([...FINE, ...TOO_MUCH])(
    'is heeded for %s that were parsed in front',
    async (_name, args) => {
      const { calls } = await send(callWith(args), { headers: KEY, count: 2, inFront })
      expect(calls).toHaveLength(1)
    }
  )
})

describe('resume tokens', () => {
  const wait = { Prefer: 'respond-async, wait=0' }
  const slowly: RawScript = call => void setTimeout(() => answer(call), 60)

  it.each(FINE)('are given for a body of %s', async (_name, args) => {
    const { last } = await send(callWith(args), { headers: wait, script: slowly })
    expect(last.text).toContain('nextResumeToken')
  })

  it.each(TOO_MUCH)('are not given for a body of %s', async (_name, args) => {
    const { last, calls } = await send(callWith(args), { headers: wait, script: slowly })
    expect(JSON.parse(last.text)).toEqual({ jsonrpc: '2.0', id: 1, result: {} })
    expect(calls).toHaveLength(1)
  })
})
