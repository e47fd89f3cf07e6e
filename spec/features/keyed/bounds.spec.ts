// What calls under an `Idempotency-Key` may hold: of each owner, of all together, and of what they
// have been asked.

import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { Readable } from 'node:stream'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { Awaitable } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, notification, post, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { open, requestText } from '../hardening/wire.js'
import { answerJson, CALL, KEY, keyed, mount } from './setup.js'

const as = (owner: string, n: number | string = ''): Record<string, string> => ({
  authorization: `Bearer ${owner}`,
  'idempotency-key': `${KEY}-${n}`
})

describe('an answer that is longer than what is kept', () => {
  it('is not kept, and its endpoint sees the close where its client has gone', async () => {
    const piece = Buffer.alloc(64 * 1024)
    let written = 0
    const { send, sendAndLeave, streams } = await mount(({ res }) => {
      res.writeHead(200, { 'Content-Type': 'application/octet-stream' })
      res.flushHeaders()
    })
    const call = await sendAndLeave()
    const source = new Readable({
      read() {
        written += piece.length
        setImmediate(() => this.push(piece))
      }
    })
    call.res.once('close', () => source.destroy())
    source.pipe(call.res)
    await call.closed
    expect(written).toBeGreaterThanOrEqual(1024 * 1024)
    expect(written).toBeLessThan(2 * 1024 * 1024)
    expect(streams.stats()).toMatchObject({ keyed: 0, bytes: 0 })
    expect((await send()).status).toBe(409)
  })

  it('stops also an endpoint that does not listen for the close', async () => {
    const { sendAndLeave } = await mount(() => undefined)
    const { res, closed } = await sendAndLeave()
    res.writeHead(200, { 'Content-Type': 'text/plain' })
    const piece = 'x'.repeat(64 * 1024)
    for (let n = 0; n < 20; n++) res.write(piece)
    await closed
    expect([res.write(piece), res.destroyed]).toEqual([false, true])
  })

  it('reaches its client whole, and the endpoint sees it finish', async () => {
    const events: string[] = []
    const text = 'x'.repeat(3 * 1024 * 1024)
    const { send } = await mount(({ res }) => {
      for (const event of ['finish', 'close']) res.on(event, () => events.push(event))
      res.writeHead(200, { 'Content-Type': 'text/plain' }).end(text)
    })
    expect((await send()).text).toBe(text)
    await until(() => events.length === 2)
    expect(events).toEqual(['finish', 'close'])
    expect((await send()).status).toBe(409)
  })

  it('becomes a stream where it is an event stream', async () => {
    const note = notification('notifications/message', {
      level: 'info',
      data: 'x'.repeat(2 * 1024 * 1024)
    })
    const text = [note, result(1, 'done')]
      .map(message => `data: ${JSON.stringify(message)}\n\n`)
      .join('')
    const { send } = await mount(
      ({ res }) => void res.setHeader('Content-Type', 'text/event-stream').end(text)
    )
    for (let n = 0; n < 2; n++) expect((await send()).messages()).toEqual([note, result(1, 'done')])
  })
})

describe('running calls under a key', () => {
  it('are counted, with the memory that is held for those whose client has gone', async () => {
    const { sendAndLeave, send, streams } = await mount(() => undefined)
    const call = await sendAndLeave({}, callTool(1, 'any', { text: 'x'.repeat(10_000) }))
    await until(() => streams.stats().bytes > 0)
    expect(streams.stats().keyed).toBe(1)
    expect(streams.stats().bytes).toBeGreaterThan(10_000)
    answerJson(call, result(1, 'done'))
    await call.closed
    expect(streams.stats()).toMatchObject({ keyed: 0 })
    expect(streams.stats().bytes).toBeLessThan(1000)
    expect((await send({}, callTool(1, 'any', { text: 'x'.repeat(10_000) }))).text).toContain(
      'done'
    )
  })

  it('without a client are limited in number; beyond that the endpoint sees the close, and the call does not run again', async () => {
    const { sendAndLeave, send, calls, streams } = await mount(() => undefined, { maxStreams: 4 })
    for (let n = 0; n < 5; n++) await sendAndLeave(as('one', n))
    await calls[4]!.closed
    expect(calls.map(({ isClosed }) => isClosed)).toEqual([false, false, true, true, true])
    // Another owner has room still.
    await sendAndLeave(as('another'))
    expect(streams.stats()).toMatchObject({ keyed: 3, refusals: 3 })
    expect(calls[5]!.isClosed).toBe(false)
    expect((await send(as('one', 4))).status).toBe(409)
    expect(calls.length).toBe(6)
  })

  it('whose client had left before they began see it go as well, where there is no room', async () => {
    const arrived = new Awaitable<unknown>()
    const whenGone: RequestHandler = (req, res, next) => {
      res.once('close', () => next())
      arrived.push(req)
    }
    const endpoint = rawEndpoint(() => undefined)
    const { url, streams } = await serve(endpoint, { maxStreams: 2 }, [express.json(), whenGone])
    const { calls } = endpoint
    for (let n = 0; n < 2; n++) {
      const wire = open(Number(new URL(url).port))
      const headers = keyed(as('one', n))
      wire.socket.write(requestText({ method: 'POST', path: '/mcp', headers }, CALL))
      await arrived.nth(n + 1)
      await wire.leave()
      await calls.nth(n + 1)
    }
    await calls[1]!.closed
    expect(calls[0]!.isClosed).toBe(false)
    expect(streams.stats()).toMatchObject({ keyed: 1, refusals: 1 })
  })

  it('without a client are limited in bytes', async () => {
    const { sendAndLeave, calls, streams } = await mount(() => undefined, { maxBytes: 8 * 100_000 })
    const large = callTool(1, 'any', { text: 'x'.repeat(30_000) })
    for (let n = 0; n < 3; n++) await sendAndLeave(as('one', n), large)
    await calls[2]!.closed
    expect(calls.map(({ isClosed }) => isClosed)).toEqual([false, false, true])
    expect(streams.stats().bytes).toBeLessThan(70_000)
  })

  it('free the memory when their client is there again', async () => {
    const { sendAndLeave, send, calls, streams } = await mount(() => undefined, { maxStreams: 2 })
    const call = await sendAndLeave()
    await until(() => streams.stats().bytes > 0)
    const again = send()
    await until(() => streams.stats().bytes === 0)
    answerJson(call, result(1, 'done'))
    expect((await again).text).toContain('done')
    expect(calls.length).toBe(1)
  })
})

describe('a call that has been answered', () => {
  it('is not evicted by calls of other owners', async () => {
    const { send, calls } = await mount(call => answerJson(call, calls.length), { maxStreams: 20 })
    await send(as('hers'))
    for (let n = 0; n < 60; n++) await send(as('his', n))
    expect((await send(as('hers'))).text).toBe('1')
    expect(calls.length).toBe(61)
  })

  it('is not evicted by requests that are refused', async () => {
    const script = (call: Parameters<typeof answerJson>[0]): void =>
      answerJson(call, 'any', call.req.headers.authorization === 'Bearer hers' ? 200 : 401)
    const { send, calls } = await mount(script, { maxStreams: 5 })
    for (let n = 0; n < 3; n++) await send(as('hers', n))
    for (let n = 0; n < 20; n++) await send(as(`forged ${n}`, n))
    for (let n = 0; n < 3; n++) expect((await send(as('hers', n))).status).toBe(200)
    expect(calls.length).toBe(23)
  })

  it('belongs to its path', async () => {
    const { url, send, calls } = await mount(call => answerJson(call, 'done'))
    await send()
    for (const path of ['/mail', '/mail?a=1', '?a=1']) {
      const answer = await post(`${url}${path}`, CALL, keyed())
      await answer.ended
    }
    expect(calls.map(({ req }) => req.url)).toEqual(['/mcp', '/mcp/mail'])
  })
})

describe('an answer whose time is over', () => {
  it('is removed without another request', async () => {
    const { send, streams } = await mount(call => answerJson(call, result(1, 'done')), {
      window: 1,
      resumeInterval: { min: 0, max: 0.05 }
    })
    await send()
    expect(streams.stats().bytes).toBeGreaterThan(0)
    await until(() => streams.stats().bytes === 0)
  })
})
