// What is remembered of a call under a key, once it has been answered, is its answer, however many
// pieces it came in: not the request that it came with.

import { describe, expect, it } from '@jest/globals'
import type { IncomingMessage } from 'node:http'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, post, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { open, requestText } from '../../features/hardening/wire.js'
import { answerJson, keyed, mount } from '../../features/keyed/setup.js'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const CALLS = 200
const SIZE = 100_000

async function memory(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collectGarbage()
    await new Promise(setImmediate)
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

describe('settled calls', () => {
  it.each(['json', 'event stream'])(
    'answered by %s keep a small part of what they were sent with',
    async kind => {
      const endpoint = rawEndpoint(
        ({ message, res, result: answer }) => {
          if (kind === 'event stream') return answer()
          res
            .writeHead(200, { 'Content-Type': 'application/json' })
            .end(JSON.stringify(result(message.id, {})))
        },
        { stateless: true }
      )
      const { url, streams } = await serve(endpoint)
      const send = async (n: number): Promise<void> => {
        const response = await post(url, callTool(n, 'any', { text: `${n}`.padEnd(SIZE, 'x') }), {
          'Idempotency-Key': `key-of-call-number-${n}`
        })
        await response.ended
        expect(response.status).toBe(200)
        endpoint.calls.length = endpoint.requests.length = 0
      }
      for (let n = 0; n < 20; n++) await send(n)
      const before = await memory()
      for (let n = 0; n < CALLS; n++) await send(1000 + n)
      expect(streams.stats().keyed).toBe(0)
      // All of them would be 20 MB, and more with their requests and sockets.
      expect((await memory()) - before).toBeLessThan((CALLS * SIZE) / 4)
    }
  )
})

describe('calls that are sent again while the first runs', () => {
  it('keep nothing of what they were sent with', async () => {
    const { url, server, calls } = await mount(() => undefined)
    const head = { method: 'POST', path: '/mcp', headers: keyed() }
    const text = requestText(head, callTool(1, 'any', { text: 'x'.repeat(10 * SIZE) }))
    const send = () => {
      const wire = open(Number(new URL(url).port))
      wire.socket.write(text)
      return wire
    }
    const first = send()
    const call = await calls.nth(1)
    const before = await memory()
    const requests: IncomingMessage[] = []
    server.on('request', (req: IncomingMessage) => requests.push(req))
    const others: ReturnType<typeof send>[] = []
    // One after the other: an owner may only send so many bodies at once.
    for (let n = 1; n <= 20; n++) {
      others.push(send())
      await until(() => requests.length === n && requests.every(({ complete }) => complete))
    }
    // All of them would be 60 MB: as bytes, as text and parsed.
    expect((await memory()) - before).toBeLessThan(10_000_000)
    answerJson(call, result(1, 'for all'))
    for (const { text: answer } of [first, ...others])
      await until(() => answer().includes('for all'))
    expect(calls.length).toBe(1)
  })
})

describe('an answer that comes in pieces', () => {
  const PIECES = 200_000

  it.each(['', 'x'])('takes little where they are %j', async piece => {
    const { send, sendAndLeave, streams } = await mount(() => undefined)
    const { res, closed } = await sendAndLeave()
    res.writeHead(200, { 'Content-Type': 'text/plain' })
    const before = await memory()
    for (let n = 1; n <= PIECES; n++) {
      res.write(piece)
      if (n % 1000 === 0) await new Promise(setImmediate)
    }
    // Kept one by one they take 20 MB and more, of which 200 KB would be counted.
    expect((await memory()) - before).toBeLessThan((PIECES * 100) / 2)
    expect(streams.stats().bytes).toBeGreaterThanOrEqual(piece.length * PIECES)
    res.end()
    await closed
    expect((await send()).text).toBe(piece.repeat(PIECES))
  })
})
