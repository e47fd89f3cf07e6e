// What has not become an event of the log yet, or is on its way out of it, counts like what is in
// it.

import { describe, expect, it } from '@jest/globals'
import { mcpStreams } from '../../../lib/index.js'
import { resumableTransport } from '../../../lib/wires/index.js'
import type { TransportLike } from '../../../lib/protocol/shared-wire.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { closeLater } from '../../helpers/listen.js'
import { initialize, notification } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { call, gist, leave, note, turn } from './setup.js'

const MEBIBYTE = 1024 * 1024
const HALF = 'x'.repeat(MEBIBYTE / 2)

describe('an event that has not come whole', () => {
  async function begin(maxBytes: number) {
    const endpoint = rawEndpoint(rawCall => rawCall.open(), { stateless: true })
    const served = await serve(endpoint, { maxBytes })
    let calls = 0
    const open = async (): Promise<[OpenStream, RawCall]> => [
      await call(served.url, ++calls),
      await endpoint.calls.nth(calls)
    ]
    return { ...served, open }
  }

  it('counts until it has, and once after that', async () => {
    const { streams, open } = await begin(16 * MEBIBYTE)
    const [response, rawCall] = await open()
    await leave(response, { streams })
    rawCall.write('data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"')
    for (let n = 1; n <= 4; n++) {
      rawCall.write(HALF)
      expect(streams.stats().bytes).toBeGreaterThan(n * HALF.length - 5000)
    }
    rawCall.write('"}}\n\n')
    expect(streams.stats().bytes).toBeGreaterThan(4 * HALF.length)
    expect(streams.stats().bytes).toBeLessThan(5 * HALF.length)
  })

  it('ends with its response, and counts no more', async () => {
    const { streams, open } = await begin(16 * MEBIBYTE)
    const [response, rawCall] = await open()
    rawCall.write(`data: ${HALF}`)
    rawCall.res.end()
    await response.ended
    expect(gist(response.messages())).toEqual([[1, 'no-response']])
    expect(streams.stats().bytes).toBeLessThan(5000)
  })

  it('fails its call where there is no memory for it, whatever its client does', async () => {
    const { streams, open } = await begin(4 * MEBIBYTE)
    const all = [await open(), await open(), await open()]
    for (let n = 0; n < 4; n++)
      for (const [, rawCall] of all) {
        rawCall.write(n === 0 ? `data: ${HALF}` : HALF)
        expect(streams.stats().bytes).toBeLessThanOrEqual(4 * MEBIBYTE + 5000)
      }
    expect(streams.stats()).toMatchObject({ live: 2 })
    await turn()
    const failed = all.filter(([, rawCall]) => rawCall.isClosed)
    for (const [response] of failed) await response.ended
    expect(failed.map(([response]) => gist(response.messages())[0])).toEqual([
      [expect.any(Number), 'overflow']
    ])
  })
})

it('messages that a wire has not taken count until it has, or is gone', async () => {
  const streams = mcpStreams()
  closeLater(() => streams.close({ drain: 0 }))
  const release: (() => void)[] = []
  const wire: TransportLike = {
    start: async () => undefined,
    close: async () => undefined,
    send: async message => {
      if ('method' in message && message.method === 'notifications/message')
        await new Promise<void>(resolve => release.push(resolve))
    }
  }
  const transport = resumableTransport(wire, streams)
  await transport.start()
  wire.onmessage?.(initialize('2025-11-25', { experimental: { streams: {} } }))
  const before = streams.stats().bytes
  // Twice each: in the log, and on its way.
  for (let n = 1; n <= 2; n++)
    await transport.send(notification('notifications/message', note(n, 50_000)) as never)
  await turn()
  expect(release).toHaveLength(2)
  expect(streams.stats().bytes - before).toBeGreaterThan(4 * 50_000)
  const held = streams.stats().bytes
  release.shift()!()
  await turn()
  expect(held - streams.stats().bytes).toBeGreaterThan(50_000)
  expect(held - streams.stats().bytes).toBeLessThan(51_000)
  wire.onclose?.()
  expect(held - streams.stats().bytes).toBeGreaterThan(100_000)
  await transport.close()
})
