// A client written from the draft alone, over HTTP: wherever the wire is cut, in its call and in
// its resumes, it has every message, in order; with a cursor, once.

import { expect, it } from '@jest/globals'
import { callTool, headersFor, request } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { exchange, type WireExchange } from '../../features/resume/wire.js'
import { draftEndpoint, end, note } from '../../features/streams/setup.js'

const NOTES = [1, 2, 3, 4].map(n => note(n, n * 40))
const RESULT = { jsonrpc: '2.0', id: 'call', result: { text: '漢€ü😀' } }

async function world() {
  let executions = 0
  const endpoint = draftEndpoint(
    async ({ emit, res }) => {
      executions++
      for (const [i, message] of [...NOTES, RESULT].entries()) {
        if (i > 1) await new Promise(resolve => setImmediate(resolve))
        emit(message)
      }
      res.end()
    },
    { stateless: true }
  )
  const { url } = await serve(endpoint, { retry: 10, notifications: 'always' })
  const headers = headersFor({
    version: '2025-11-25',
    accept: 'application/json, text/event-stream'
  })
  return { url, headers, executions: () => executions }
}

/** Leaves after so many bytes, if there are as many. */
async function cutAt(bytes: number, wire: WireExchange): Promise<WireExchange['response']> {
  await Promise.race([wire.nthByte(bytes), wire.ended])
  wire.leave()
  await wire.ended
  return wire.response
}

it.each([
  ['a cursor', true],
  ['the stream id alone', false]
])('with %s', async (_name, hasCursor) => {
  const w = await world()
  const post = (body: object) => exchange(w.url, { method: 'POST', headers: w.headers, body })
  const call = callTool('call', 'any')
  const whole = post(call)
  await whole.ended
  const length = whole.response.bytes
  expect(length).toBeGreaterThan(1500)

  let runs = 1
  for (let cut = 400; cut <= length; cut += 7) {
    const opened = await cutAt(cut, post(call))
    runs++
    const [create] = opened.messages as Json[]
    // Before that it does not know its stream; that is what the link and the idempotency key are
    // for.
    if (create === undefined) continue
    const { streamId } = create.params.stream
    const seen = new Map<string | undefined, Json>()
    const messages: Json[] = [...opened.messages]
    let lastEventId = opened.lastEventId
    const resume = () =>
      post(
        request('again', 'stream/resume', { streamId, ...(hasCursor && { cursor: lastEventId }) })
      )
    const second = await cutAt(Math.ceil(cut / 2) + 300, resume())
    messages.push(...second.messages)
    lastEventId = second.lastEventId ?? lastEventId
    const third = resume()
    await third.ended
    messages.push(...third.response.messages)

    const expected = [create, ...NOTES, RESULT, end(streamId)]
    const ofStream = messages.filter(({ id }) => id !== 'again')
    const once: Json[] = []
    for (const message of ofStream) {
      const text = JSON.stringify(message)
      if (!seen.has(text)) once.push(message)
      seen.set(text, message)
    }
    expect(once).toEqual(expected)
    if (hasCursor) {
      // The end is said on each response that reaches it, and the rest once.
      expect(ofStream.filter(({ method }) => method !== 'notifications/stream/end')).toEqual(
        expected.slice(0, -1)
      )
    }
    expect(messages.at(-1)).toEqual({
      jsonrpc: '2.0',
      id: 'again',
      result: { streamId, status: 'completed' }
    })
  }
  expect(w.executions()).toBe(runs)
})
