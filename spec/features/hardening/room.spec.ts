// Before memory runs out endpoints are asked to wait where that helps; who waits is told when to go
// on, whatever became of the socket.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import {
  FakeReader,
  append,
  complete,
  deliver,
  newTable,
  open,
  progress,
  streamId
} from '../../unit/streams/fakes.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { Awaitable, gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { blockOf, note, NOTE, RESULT, serveCase, SSE_TYPE } from '../endpoint/setup.js'
import { call, gist, leave, note as noteOf, stopTheClock, upTo } from '../limits/setup.js'

describe('a response whose client was blocked when it left', () => {
  const LARGE = blockOf(note('x'.repeat(100_000)))
  const COUNT = 200

  it.each<[how: string, end: (res: ServerResponse) => unknown]>([
    ['by pipe', res => Readable.from([Buffer.from(NOTE), Buffer.from(RESULT)]).pipe(res)],
    [
      'with a look at writableNeedDrain',
      async res => {
        for (const text of [NOTE, RESULT]) {
          if (res.writableNeedDrain) await once(res, 'drain')
          res.write(text)
        }
        res.end()
      }
    ]
  ])(
    'is written to its end %s, and the client that comes back gets everything',
    async (_how, end) => {
      const go = gate()
      const exchanges = new Awaitable<IncomingMessage>()
      const { call, again, connections, expectNeighbourUnharmed } = await serveCase(
        async (res, req) => {
          exchanges.push(req)
          res.writeHead(200, SSE_TYPE)
          await go.opened
          for (let n = 0; n < COUNT; n++) res.write(LARGE)
          await left.opened
          await end(res)
        },
        { maxStreamBytes: 32 * 1024 * 1024 }
      )
      const left = gate()
      const response = await call()
      const { socket } = await exchanges.nth(1)
      response.pause()
      go.open()
      await until(() => socket.writableNeedDrain)
      response.destroy()
      await connections(1)
      left.open()
      const rest = await again(response)
      expect(rest.messages().slice(COUNT)).toEqual([note(1), result(1, {})])
      await expectNeighbourUnharmed()
    }
  )
})

describe('when all streams together are close to their limit', () => {
  const MAX_BYTES = 4 * 1024 * 1024
  const LARGE = progress('x'.repeat(50_000))

  it('a write says so before anything fails, and goes on when there is room', () => {
    stopTheClock()
    const { table, notices } = newTable({ maxBytes: MAX_BYTES, maxStreamBytes: MAX_BYTES })
    const all = ['a', 'b', 'c'].map(name => open(table, { id: streamId(name) }))
    for (const { stream } of all) stream.attach(new FakeReader(), 0)
    for (const { stream } of all.slice(0, 2))
      while (table.counts().bytes < MAX_BYTES * 0.4 && append(stream, LARGE));
    while (append(all[1]!.stream, LARGE));
    expect(table.counts().bytes).toBeGreaterThan(MAX_BYTES * 0.8)
    expect(table.counts().bytes).toBeLessThan(MAX_BYTES * 0.95)
    for (const { stream } of all) expect(append(stream, LARGE)).toBe(false)
    expect(all.map(({ stream }) => [stream.state, stream.isFull])).toEqual(
      Array(3).fill(['live', true])
    )

    for (const { stream, producer } of all) {
      deliver(stream)
      expect(producer.drains).toBe(1)
      complete(stream)
      expect(stream.state).toBe('completed')
    }
    expect(notices.filter(({ name }) => name === 'failed')).toEqual([])
  })

  it('what large streams without a reader would take is left for those that are read', async () => {
    const reasons: unknown[] = []
    // More than a stream may hold, so that none of them comes to its end unread.
    const COUNT = 80
    const HOGS = ['a', 'b', 'c', 'd']
    const start = gate()
    const hogsEnd = new Awaitable<unknown>()
    const endpoint = rawEndpoint(async rawCall => {
      const { id } = rawCall.message
      rawCall.open()
      await start.opened
      for (let n = 1; n <= (id === 'small' ? 20 : COUNT) && !rawCall.isClosed; n++)
        if (!rawCall.emit(noteOf(n, id === 'small' ? 2000 : 64_000)))
          await Promise.race([once(rawCall.res, 'drain'), rawCall.closed])
      rawCall.result()
      if (id !== 'small') hogsEnd.push(id)
    })
    const served = await serve(endpoint, {
      maxBytes: 8 * 1024 * 1024,
      maxStreamBytes: 4 * 1024 * 1024,
      onError: error => reasons.push((error as { code?: string }).code)
    })
    for (const id of HOGS) await leave(await call(served.url, id), served)
    start.open()
    for (let i = 0; i < 5; i++) {
      const healthy = await call(served.url, 'small')
      await healthy.ended
      expect(gist(healthy.messages())).toEqual([...upTo(20), ['small', 'result']])
    }
    await hogsEnd.nth(HOGS.length)
    expect(reasons).toEqual(HOGS.map(() => 'overflow'))
  })

  it('a large stream without a reader fails before the memory is used up', () => {
    stopTheClock()
    const { table } = newTable({ maxBytes: MAX_BYTES, maxStreamBytes: MAX_BYTES })
    const { stream } = open(table)
    let bytes = 0
    while (append(stream, LARGE)) bytes = table.counts().bytes
    expect(stream.state).toBe('failed')
    expect(bytes).toBeGreaterThan(MAX_BYTES * 0.8)
    expect(bytes).toBeLessThan(MAX_BYTES * 0.95)
    // What is kept of it takes no more than its events.
    expect(table.counts().bytes).toBeLessThanOrEqual(bytes)
  })
})
