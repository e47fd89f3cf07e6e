// What the process holds, under several kinds of load, is what `stats().bytes` says, or little
// more.

import { expect, it } from '@jest/globals'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { gate } from '../../helpers/gate.js'
import { callTool, post } from '../../helpers/mcp.js'
import { serve, type Served } from '../../helpers/serve.js'
import { call, leave, MODERN, note, turn } from '../../features/limits/setup.js'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Milliseconds: garbage collection is slow in a process that has run other specs before. */
const MEBIBYTE = 1024 * 1024
/** For what is held besides: sockets, requests, whatever Node and the specs keep. */
const SLACK = 12 * MEBIBYTE

async function memory(): Promise<number> {
  for (let i = 0; i < 4; i++) {
    collectGarbage()
    await turn()
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** Calls that have been made and left: what their endpoint does then is the load. */
async function left(
  options: McpStreamsOptions,
  count: number
): Promise<Served & { calls: RawCall[] }> {
  const endpoint = rawEndpoint(rawCall => rawCall.open(), { stateless: true })
  const served = await serve(endpoint, options)
  const calls: RawCall[] = []
  for (let n = 1; n <= count; n++) {
    const response = await call(served.url, n)
    calls.push(await endpoint.calls.nth(n))
    await leave(response, served)
  }
  return { ...served, calls }
}

const LOADS: [name: string, load: (calls: RawCall[]) => void][] = [
  [
    'events of a megabyte each',
    calls => {
      for (const rawCall of calls) for (let n = 1; n <= 3; n++) rawCall.emit(note(n, MEBIBYTE))
    }
  ],
  [
    'many small events',
    calls => {
      for (const rawCall of calls) for (let n = 1; n <= 8000; n++) rawCall.emit(note(n, 20))
    }
  ],
  [
    'events that do not come whole',
    calls => {
      const piece = 'x'.repeat(MEBIBYTE / 4)
      for (const rawCall of calls)
        for (let n = 0; n < 12; n++) rawCall.write(n === 0 ? `data: ${piece}` : piece)
    }
  ],
  [
    'more than they may',
    calls => {
      for (const rawCall of calls) for (let n = 1; n <= 30; n++) rawCall.emit(note(n, MEBIBYTE / 4))
    }
  ]
]

it.each(LOADS)('%s, while nobody reads', async (_name, load) => {
  const { calls, streams } = await left(
    { maxStreamBytes: 4 * MEBIBYTE, maxBytes: 64 * MEBIBYTE },
    10
  )
  const before = await memory()
  load(calls)
  const held = (await memory()) - before
  const { bytes } = streams.stats()
  expect(bytes).toBeGreaterThan(10 * MEBIBYTE)
  expect(bytes).toBeLessThanOrEqual(65 * MEBIBYTE)
  expect(held).toBeLessThan(1.5 * bytes + SLACK)
})

it('a tool on the SDK that writes on when its client has left, and waits for nothing', async () => {
  const start = gate()
  const isDone = gate()
  const endpoint = sdkV1Stateless({
    onContext: async (_args, context) => {
      await start.opened
      const { sendNotification } = context as { sendNotification(message: object): Promise<void> }
      const sent: Promise<unknown>[] = []
      for (let n = 1; n <= 1000; n++) {
        sent.push(sendNotification(note(n, 100_000)).catch(() => undefined))
        await turn()
      }
      isDone.open()
      await new Promise(() => undefined)
    }
  })
  const failures: unknown[] = []
  const served = await serve(endpoint, {
    maxStreamBytes: 4 * MEBIBYTE,
    onError: error => failures.push((error as { code?: string }).code)
  })
  const response = await post(served.url, callTool(1, 'context', {}), MODERN)
  await leave(response, served)
  const before = await memory()
  start.open()
  await isDone.opened
  const held = (await memory()) - before
  expect(failures).toEqual(['overflow'])
  expect(served.streams.stats().bytes).toBeLessThan(5 * MEBIBYTE)
  // It has written a hundred megabytes.
  expect(held).toBeLessThan(5 * MEBIBYTE + SLACK)
})
