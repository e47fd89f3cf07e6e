// A kept result that is asked for again and again by clients that do not read: what waits in their
// sockets is counted once, and bounded.

import { describe, expect, it, jest } from '@jest/globals'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { tasks } from '../../../lib/features/tasks/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, headersFor, post, postModern, request, result } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { answer, answerOf, send } from '../tasks/setup.js'
import { MODERN, stopTheClock, turn } from './setup.js'

const MEBIBYTE = 1024 * 1024
/** More than the sockets of both sides take by themselves. */
const SIZE = 12 * MEBIBYTE
const LARGE = {
  content: [{ type: 'text', text: 'ä'.padEnd(SIZE, 'x') }],
  resultType: 'complete'
}
const LIMITS = { maxBytes: 64 * MEBIBYTE, maxStreamBytes: 20 * MEBIBYTE }

type Headers = Record<string, string>
/** Asks for the result, once more. */
type Ask = (id: number) => Promise<OpenStream>

interface Way {
  options: McpStreamsOptions
  /** Begins a call, and returns how its result is asked for. */
  begin(url: string, headers: Headers): Promise<Ask>
}

const beginTask = async (url: string, headers: Headers): Promise<string> => {
  const params = { name: 'large', arguments: {}, task: {} }
  return (await answerOf(await post(url, request(1, 'tools/call', params), headers))).result.task
    .taskId
}
const TASKS = { tasks: tasks({ after: 0, tools: { large: 'always' } }) }
const core = (accept: string): Way => ({
  options: TASKS,
  async begin(url, headers) {
    const all = { ...MODERN, ...headers, accept }
    const taskId = await beginTask(url, { ...MODERN, ...headers })
    return id => post(url, request(id, 'tasks/result', { taskId }), all)
  }
})
const round = (id: number, state?: string) =>
  request(id, 'tools/call', { name: 'large', arguments: {}, ...(state && { requestState: state }) })

const WAYS: Record<string, Way> = {
  'tasks/get': {
    options: TASKS,
    async begin(url, headers) {
      const { result } = await answerOf(
        await send(url, 'tools/call', { name: 'large' }, { headers })
      )
      const { taskId } = result
      return id => send(url, 'tasks/get', { taskId }, { id, headers })
    }
  },
  'tasks/result as JSON': core('application/json'),
  'tasks/result as an event stream': core('application/json, text/event-stream'),
  'a resume token': {
    options: { resumeTokens: { after: 5 } },
    async begin(url, headers) {
      const call = (id: number, resumeToken: string | null) =>
        post(
          url,
          request(id, 'tools/call', { name: 'large', arguments: {}, _meta: { resumeToken } }),
          { ...MODERN, ...headers }
        )
      const { result } = await answerOf(await call(1, null))
      return id => call(id, result._meta.nextResumeToken)
    }
  },
  requestState: {
    options: { disconnectAfter: 5 },
    async begin(url, headers) {
      const { result } = await answerOf(await postModern(url, round(1), headers))
      return id => postModern(url, round(id, result.requestState), headers)
    }
  }
}

/** A result that is there, and how it is asked for. */
async function served(way: Way, more: McpStreamsOptions = {}) {
  const endpoint = rawEndpoint(
    call => {
      const { method } = call.message ?? {}
      if (method === 'ping') return answer(call, {})
      if (method === 'server/discover') return answer(call, { capabilities: { tools: {} } })
    },
    { stateless: true }
  )
  const server = await serve(endpoint, { ...LIMITS, ...way.options, ...more })
  const kept = async (headers: Headers = {}): Promise<Ask> => {
    const ask = await way.begin(server.url, headers)
    const call = endpoint.calls.findLast(({ message }) => message?.method === 'tools/call')!
    answer(call, LARGE)
    for (let i = 0; i < 20; i++) await turn()
    return ask
  }
  return { ...server, kept }
}

/** Asks, and does not read what comes. */
async function mute(ask: Ask, id: number): Promise<OpenStream> {
  const response = await ask(id)
  response.pause()
  for (let i = 0; i < 20; i++) await turn()
  return response
}

const textOf = async (response: OpenStream) => {
  response.resume()
  const { id, result } = await answerOf(response)
  return [id, JSON.stringify(result).includes(LARGE.content[0]!.text)]
}

describe.each(Object.entries(WAYS))('a kept result, by %s', (_name, way) => {
  it('waits in any number of sockets as one, and comes whole to each that reads', async () => {
    const server = await served(way)
    const { streams } = server
    const ask = await server.kept()
    const { bytes: before } = streams.stats()
    const responses: OpenStream[] = []
    for (let id = 10; id < 12; id++) responses.push(await mute(ask, id))
    const { bytes } = streams.stats()
    expect(bytes).toBeGreaterThan(before + SIZE / 2)
    expect(bytes).toBeLessThan(before + 1.5 * SIZE)
    expect(await Promise.all(responses.map(textOf))).toEqual(
      responses.map((_, n) => [10 + n, true])
    )
    await until(() => streams.stats().bytes <= before)
  })
})

// One on a response of ours, and one on a response that is captured.
describe.each(['tasks/get', 'a resume token'])('a kept result, by %s', name => {
  it('is cut off where its client takes nothing for `resumeInterval.max`', async () => {
    const server = await served(WAYS[name]!, { resumeInterval: { min: 0, max: 60 } })
    const ask = await server.kept()
    stopTheClock()
    const { bytes: before } = server.streams.stats()
    const response = await mute(ask, 10)
    jest.advanceTimersByTime(59_000)
    expect(server.streams.stats().bytes).toBeGreaterThan(before + SIZE / 2)
    jest.advanceTimersByTime(20_000)
    for (let i = 0; i < 20; i++) await turn()
    response.resume()
    expect(await response.ended).not.toBe('end')
    expect(server.streams.stats().bytes).toBeLessThanOrEqual(before)
  })
})

describe('kept results of several owners', () => {
  it('make room where memory is short: the oldest that is not read, of the owner that has most', async () => {
    const server = await served(WAYS['a resume token']!)
    const { streams } = server
    const his = await mute(await server.kept(headersFor({ auth: 'b' })), 10)
    const hers: OpenStream[] = []
    for (let id = 11; id < 18; id++) {
      hers.push(await mute(await server.kept(headersFor({ auth: 'a' })), id))
      // With what the calls themselves may keep.
      expect(streams.stats().bytes).toBeLessThan(LIMITS.maxBytes + LIMITS.maxStreamBytes)
    }
    expect(await textOf(his)).toEqual([10, true])
    expect(await textOf(hers.pop()!)).toEqual([17, true])
    hers[0]!.resume()
    expect(await hers[0]!.ended).not.toBe('end')
    for (const each of hers) each.destroy()
  })
})

describe('an answer under an `Idempotency-Key`', () => {
  it('comes whole, however often it is asked for', async () => {
    const { url } = await serve(rawEndpoint(call => answer(call, { text: 'x'.repeat(900_000) })))
    const headers = { ...MODERN, 'idempotency-key': 'one-of-enough-length', prefer: 'rel=stream' }
    const texts: string[] = []
    for (let n = 0; n < 3; n++) {
      const response = await post(url, callTool(1, 'any'), headers)
      await response.ended
      texts.push(response.text)
    }
    const one = JSON.stringify(result(1, { text: 'x'.repeat(900_000) }))
    expect(texts.map(text => text === one)).toEqual([true, true, true])
  })
})
