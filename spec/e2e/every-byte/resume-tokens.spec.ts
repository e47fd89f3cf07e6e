// A call collected in three exchanges, cut at every byte of each of them, in both directions:
// whoever repeats the request gets the result, from one execution. Answered by event streams, at
// every 5th: those are cut at every byte elsewhere.

import { describe, expect, it } from '@jest/globals'
import {
  createCutProxy,
  type CutBy,
  type CutProxy,
  type Direction
} from '../../helpers/cut-proxy.js'
import { rawEndpoint, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { gate, type Gate } from '../../helpers/gate.js'
import { callTool, notification, result as resultOf } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { TEXT, tokenOf } from '../../features/resume-tokens/setup.js'

const EXCHANGES = 3
const KINDS: CutBy[] = ['fin', 'rst', 'silence']
const AT_ONCE = 16

/** What is cut: an exchange of the call, in a direction, behind so many bytes. */
interface Case {
  exchange: number
  direction: Direction
  offset: number
}

const nameOf = ({ exchange, direction, offset }: Case): string =>
  `${exchange} ${direction.padEnd(8)} ${String(offset).padStart(4, '0')}`

interface Running {
  url: string
  proxy: CutProxy
  endpoint: RawEndpoint
  /** Lets a call have its result. */
  release(name: string): void
}

async function run(kind: 'json' | 'sse'): Promise<Running> {
  const gates = new Map<string, Gate>()
  const gateOf = (name: string): Gate => {
    const known = gates.get(name) ?? gate()
    gates.set(name, known)
    return known
  }
  const endpoint = rawEndpoint(
    async ({ emit, message, res }) => {
      const progress = notification('notifications/progress', { progressToken: 'p', progress: 1 })
      if (kind === 'sse') emit(progress)
      await gateOf(message.params.arguments.name).opened
      if (kind === 'sse') emit(progress)
      else res.writeHead(200, { 'Content-Type': 'application/json' })
      const text = JSON.stringify(resultOf(message.id, TEXT))
      res.end(kind === 'sse' ? `data: ${text}\n\n` : text)
    },
    { stateless: true }
  )
  const { server } = await serve(endpoint, { resumeTokens: { after: 20 } })
  const proxy = await createCutProxy({ target: (server.address() as { port: number }).port })
  return { url: `${proxy.url}/mcp`, proxy, endpoint, release: name => gateOf(name).open() }
}

/** Aborts a request whose wire has gone silent: a client would do that in time. */
const silenced = new Map<string, AbortController>()

/** One attempt; `undefined` where its answer did not arrive whole. */
async function attempt(url: string, exchange: number, n: number, message: Json): Promise<Json> {
  const { name } = message.params.arguments
  const controller = new AbortController()
  silenced.set(`${name} ${exchange} ${n}`, controller)
  const isFirst = exchange === 0
  try {
    const response = await fetch(url, {
      method: 'POST',
      body: JSON.stringify(message),
      headers: {
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        'MCP-Protocol-Version': '2025-11-25',
        'X-Call': `${name} ${exchange} ${n}`,
        ...(isFirst && { 'Idempotency-Key': `key of ${name}` })
      },
      signal: controller.signal
    })
    const text = await response.text()
    if (!response.headers.get('content-type')?.startsWith('text/event-stream'))
      return JSON.parse(text)
    return text
      .split('\n\n')
      .flatMap(block => /^data: ?(\{.*)$/m.exec(block)?.[1] ?? [])
      .map(data => JSON.parse(data))
      .find(({ id }) => id !== undefined)
  } catch {
    return undefined
  }
}

async function collect({ url, release }: Running, name: string): Promise<Json> {
  let resumeToken: string | null = null
  for (let exchange = 0; ; exchange++) {
    // The last one finds the result on its way.
    if (exchange === EXCHANGES - 1) release(name)
    let answer: Json
    for (let n = 0; answer === undefined; n++) {
      if (n > 3) throw new Error(`${name}: no answer to exchange ${exchange}`)
      const message: Json = callTool(exchange, 'report', { name }, 'p')
      message.params._meta.resumeToken = resumeToken
      answer = await attempt(url, exchange, n, message)
    }
    expect({ name, id: answer.id }).toEqual({ name, id: exchange })
    if (answer.result?._meta?.nextResumeToken === undefined) return { exchange, ...answer }
    resumeToken = tokenOf(answer)
  }
}

describe.each([
  ['json', 1],
  ['sse', 5]
] as const)('a call that is answered by %s', (kind, step) => {
  it('loses nothing and runs once, wherever one of its exchanges is cut', async () => {
    const running = await run(kind)
    const { proxy, endpoint } = running
    const uncut = nameOf({ exchange: 9, direction: 'request', offset: 0 })
    expect(await collect(running, uncut)).toEqual({
      exchange: 2,
      jsonrpc: '2.0',
      id: 2,
      result: TEXT
    })
    const sizes = proxy.passages.map(({ bytes }) => ({ ...bytes }))
    expect(sizes).toHaveLength(EXCHANGES)

    proxy.plan = ({ headers }) => {
      const [, exchange, direction, offset, now, n] = /^(\d) (\w+) +(\d+) (\d) (\d)$/.exec(
        headers['x-call']!
      )!
      if (exchange !== now || n !== '0') return undefined
      const by = KINDS[Number(offset) % KINDS.length]!
      return { by, direction: direction as Direction, afterBytes: Number(offset) }
    }
    proxy.on('cut', ({ headers, cut }) => {
      if (cut!.by === 'silence') silenced.get(headers['x-call']!)?.abort()
    })

    const cases: Case[] = sizes.flatMap((size, exchange) =>
      (['request', 'response'] as const).flatMap(direction =>
        Array.from({ length: Math.floor(size[direction] / step) }, (_, i) => ({
          exchange,
          direction,
          offset: i * step
        }))
      )
    )
    expect(cases.length).toBeGreaterThan(1800 / step)
    const rest = cases.values()
    const worker = async (): Promise<void> => {
      for (const one of rest) {
        const name = nameOf(one)
        const answer = await collect(running, name)
        expect({ name, ...answer }).toMatchObject({ name, result: TEXT })
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))

    expect(proxy.cuts.length).toBeGreaterThan(cases.length - 20)
    const executions = new Map<string, number>()
    for (const { message } of endpoint.calls) {
      const { name } = message.params.arguments
      executions.set(name, (executions.get(name) ?? 0) + 1)
    }
    expect([...executions].filter(([, times]) => times !== 1)).toEqual([])
    expect(executions.size).toBe(cases.length + 1)
  })
})
