// What a POST that is sent again is given: the whole answer, of the first attempt alone, on the
// connection that is there.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { resumableFetch } from '../../../lib/client/index.js'
import { acquainted, greeting, json, KNOWN, scripted, status } from '../client/scripted.js'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import { closeLater } from '../../helpers/listen.js'
import { callTool, notification, post, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { sleep } from '../../helpers/sleep.js'
import { answerJson, CALL, keyed, mount } from './setup.js'

const NOTE = notification('notifications/message', { level: 'info', data: 'on its way' })
const POST = {
  method: 'POST',
  headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
}

describe('a JSON answer that is given again', () => {
  it.each<[string, (call: RawCall, text: string) => unknown]>([
    [
      'in chunks',
      ({ res }, text) => res.writeHead(200, { 'Content-Type': 'application/json' }).end(text)
    ],
    [
      'in chunks, and says so',
      ({ res }, text) => res.writeHead(200, { 'Transfer-Encoding': 'chunked' }).end(text)
    ],
    [
      'with its length',
      ({ res }, text) => res.setHeader('Content-Length', Buffer.byteLength(text)).end(text)
    ]
  ])('has a length, where the first came %s', async (_name, answer) => {
    const text = JSON.stringify(result(1, 'ä'.repeat(500)))
    const { send } = await mount(call => void answer(call, text))
    await send()
    const again = await send()
    expect(again.text).toBe(text)
    expect(again.headers['content-length']).toBe(String(Buffer.byteLength(text)))
    expect(again.headers).not.toHaveProperty('transfer-encoding')
  })

  it.each([204, 202])('is empty where it was: %d', async code => {
    const { send, calls } = await mount(({ res }) => void res.writeHead(code).end())
    await send()
    const again = await send()
    expect([again.status, again.text]).toEqual([code, ''])
    expect(again.headers['content-length']).toBe(code === 204 ? undefined : '0')
    expect(calls.length).toBe(1)
  })

  it('is whole behind a wire that is cut in it once more', async () => {
    const answer = result(1, 'x'.repeat(5000))
    const { url, calls } = await mount(call => answerJson(call, answer))
    // The first attempt is cut in its head, the second in its body.
    const proxy = await createCutProxy({
      target: Number(new URL(url).port),
      plan: [undefined, { by: 'fin', afterBytes: 20 }, { by: 'fin', afterBytes: 2500 }]
    })
    const fetch = resumableFetch({ minTimeout: 1, maxTimeout: 5 })
    const own = new URL('/mcp', proxy.url).href
    for (let id = 1; id <= 2; id++) {
      const response = await fetch(own, { ...POST, body: JSON.stringify(callTool(id, 'any')) })
      expect(await response.json()).toEqual(answer)
    }
    expect(proxy.passages).toHaveLength(4)
    expect(calls.length).toBe(2)
  })
})

describe('an endpoint that is a gateway', () => {
  it.each([502, 504])('and says %d may have begun: the tool runs once', async code => {
    const { send, calls, url } = await mount(call =>
      answerJson(call, 'gateway', call.message.id === 1 ? 200 : code)
    )
    const fetch = resumableFetch({ minTimeout: 1, maxTimeout: 5 })
    for (let id = 1; id <= 2; id++)
      await (await fetch(url, { ...POST, body: JSON.stringify(callTool(id, 'any')) })).text()
    expect(calls.length).toBe(2)
    for (let n = 0; n < 2; n++) expect((await send({}, callTool(3, 'any'))).status).toBe(code)
    expect(calls.length).toBe(3)
  })

  it.each([429, 503])('and says %d has not begun: it may run again', async code => {
    const { send, calls } = await mount(call =>
      answerJson(call, 'busy', calls.length === 1 ? code : 200)
    )
    expect([(await send()).status, (await send()).status]).toEqual([code, 200])
    expect(calls.length).toBe(2)
  })

  it.each(['writeHead', 'statusCode'])('and says so in a string: %s', async by => {
    const { send, calls } = await mount(({ res }) => {
      const status = (calls.length === 1 ? '503' : '204') as unknown as number
      if (by === 'writeHead') res.writeHead(status)
      else res.statusCode = status
      res.end()
    })
    const answers = [await send(), await send(), await send()]
    expect(answers.map(({ status }) => status)).toEqual([503, 204, 204])
    expect(answers[2]!.headers).not.toHaveProperty('content-length')
    expect(calls.length).toBe(2)
  })
})

describe('`resumableFetch`', () => {
  it.each([502, 504])('takes a %d that the server has kept for the answer', async code => {
    const { url, requests } = await scripted(greeting, status(code, KNOWN))
    const answer = await (await acquainted(url))(url, { ...POST, body: JSON.stringify(CALL) })
    expect(answer.status).toBe(code)
    expect(requests).toHaveLength(2)
  })

  it.each([502, 504])('asks again where a gateway in front of the server says %d', async code => {
    const { url, requests } = await scripted(greeting, status(code), json('answer', KNOWN))
    const answer = await (await acquainted(url))(url, { ...POST, body: JSON.stringify(CALL) })
    expect(await answer.json()).toBe('answer')
    expect(requests).toHaveLength(3)
  })
})

describe('a call whose first connection is dead', () => {
  it.each<[string, (begin: () => void) => unknown]>([
    ['from a timer', begin => void begin()],
    ['from a microtask', async begin => (await null, begin())]
  ])('streams to the one that waits, whenever the endpoint begins: %s', async (_name, begun) => {
    const { url, server, sendAndLeave } = await mount(() => undefined)
    const call = await sendAndLeave()
    const waiting = post(url, CALL, keyed())
    await once(server, 'request')
    const done = gate()
    setTimeout(() => {
      void begun(() => {
        call.emit(NOTE)
        setTimeout(() => done.open(), 20)
      })
    }, 20)
    void done.opened.then(() => call.result('done'))
    const answer = await waiting
    await answer.ended
    expect(answer.messages()).toEqual([NOTE, result(1, 'done')])
  })

  it('is abandoned like any other where nobody waits', async () => {
    const { sendAndLeave, streams } = await mount(() => undefined, {
      resumeInterval: { min: 0, max: 0.1 }
    })
    const call = await sendAndLeave()
    call.emit(NOTE)
    await call.closed
    expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })
  })

  it('or seems to be dead streams to the newer connection', async () => {
    const endpoint = rawEndpoint(() => undefined)
    const { url, server } = await serve(endpoint, { retry: 5, resumeInterval: { min: 0 } })
    const first = post(url, CALL, keyed())
    const call = await endpoint.calls.nth(1)
    const second = post(url, CALL, keyed())
    await once(server, 'request')
    await sleep(20)
    await null
    call.emit(NOTE)
    const [older, newer] = await Promise.all([first, second])
    closeLater(() => newer.destroy())
    expect(await newer.nextMessage()).toEqual(NOTE)
    expect(await older.ended).toBe('end')
    call.result('done')
    await newer.ended
    expect(newer.messages()).toEqual([NOTE, result(1, 'done')])
  })
})
