// Resuming: by the stream URL, with a cursor and without; and on the endpoint, as the official
// clients do it.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import supertest from 'supertest'
import { mcpStreams } from '../../../lib/index.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { del, ended, eventId, get, headersFor } from '../../helpers/mcp.js'
import { openStream, type OpenStream } from '../../helpers/open-stream.js'
import {
  call,
  emitNotes,
  MODERN,
  mountScript,
  numbers,
  resume,
  streamIdOf,
  streamUrlOf,
  upTo
} from './setup.js'

/** Both ways to resume: where to, and with which id. */
const WAYS: [
  name: string,
  resumeBy: (url: string, id: string, lastEventId?: string) => Promise<OpenStream>
][] = [
  ['the stream URL', (url, id, lastEventId) => resume(`${url}?stream=${id}`, lastEventId)],
  [
    'the endpoint',
    (url, _id, lastEventId) => get(url, { ...MODERN, ...headersFor({ lastEventId }) })
  ]
]

/** A call that has sent some messages and lives on; its client has them, and has gone. */
async function parked(messages: number) {
  const { url, calls, streams } = await mountScript(call => {
    call.open()
    emitNotes(call, 1, messages)
  })
  const stream = await call(url)
  await stream.take(messages + 1)
  stream.destroy()
  const running = await calls.nth(1)
  return { url, id: streamIdOf(stream), running, streams }
}

/** A call that has sent messages 1 to n and its result. */
async function finished(messages: number) {
  const { url, streams } = await mountScript(call => {
    emitNotes(call, 1, messages)
    call.result()
  })
  const stream = await call(url)
  expect(await stream.ended).toBe('end')
  return { url, id: streamIdOf(stream), streams, stream }
}

describe.each(WAYS)('by GET of %s with Last-Event-ID', (_name, resumeBy) => {
  it('gives the rest of a call that ends while its stream is looked for', async () => {
    const endpoint = rawEndpoint(
      call => {
        call.open()
        emitNotes(call, 1, 2)
      },
      { stateless: true }
    )
    const streams = mcpStreams({ retry: 10 })
    let left = (): void => undefined
    const hasLeft = new Promise<void>(resolve => (left = resolve))
    const app = express()
      .use('/mcp', (req, _res, next) => {
        req.socket.once('close', left)
        next()
        if (req.method === 'GET') for (const call of endpoint.calls) call.result()
      })
      .use('/mcp', streams)
      .all('/mcp', endpoint)
    const url = `${(await listen(app)).url}/mcp`
    closeLater(() => streams.close({ drain: 0 }))
    const stream = await call(url)
    await stream.take(3)
    stream.destroy()
    await hasLeft
    const id = streamIdOf(stream)
    const resumed = await ended(resumeBy(url, id, `${id}.1`))
    expect([resumed.status, numbers(resumed.messages())]).toEqual([200, [2, 'result']])
  })

  it.each([0, 1, 2, 3])(
    'a finished stream gives what came after event %d of 4, once, and ends',
    async cursor => {
      const { url, id } = await finished(3)
      const resumed = await resumeBy(url, id, `${id}.${cursor}`)
      expect(resumed.status).toBe(200)
      expect(await resumed.ended).toBe('end')
      expect(numbers(resumed.messages())).toEqual([1, 2, 3, 'result'].slice(cursor))
      expect(resumed.events.map(event => event.id)).toEqual([
        expect.stringMatching(`^${id}\\.r1\\.${cursor}\\.[1-9]\\d*$`),
        ...[1, 2, 3, 4].slice(cursor).map(n => eventId(id, n))
      ])
    }
  )

  it.each([0, 1, 2, 3])(
    'a live stream gives what came after event %d of 3, and then what comes',
    async cursor => {
      const { url, id, running } = await parked(3)
      const resumed = await resumeBy(url, id, `${id}.${cursor}`)
      await resumed.take(4 - cursor)
      expect(numbers(resumed.messages())).toEqual([1, 2, 3].slice(cursor))
      running.emit({
        jsonrpc: '2.0',
        method: 'notifications/message',
        params: { level: 'info', data: 4 }
      })
      expect((await resumed.nextMessage()).params.data).toBe(4)
      running.result()
      expect(await resumed.ended).toBe('end')
      expect(numbers(resumed.messages())).toEqual([...[1, 2, 3].slice(cursor), 4, 'result'])
    }
  )

  it('the id of a primer means the event before it', async () => {
    const { url, id, running } = await parked(2)
    const first = await resumeBy(url, id, `${id}.2`)
    const { id: primer } = await first.next()
    expect(primer).toMatch(new RegExp(`^${id}\\.r1\\.2\\.\\d+$`))
    first.destroy()
    const second = await resumeBy(url, id, primer)
    const { id: fresh } = await second.next()
    expect(fresh).toMatch(new RegExp(`^${id}\\.r1\\.2\\.\\d+$`))
    expect(fresh).not.toBe(primer)
    running.result()
    await second.ended
    expect(numbers(second.messages())).toEqual(['result'])
  })

  it('works before the first event, from the primer on', async () => {
    const { url, id, running } = await parked(0)
    const resumed = await resumeBy(url, id, `${id}.0.1`)
    expect(resumed.status).toBe(200)
    expect((await resumed.next()).data).toBe('')
    expect(running.isClosed).toBe(false)
    emitNotes(running, 1, 2)
    running.result()
    await resumed.ended
    expect(numbers(resumed.messages())).toEqual([1, 2, 'result'])
  })

  it('works again and again: each connection is cut, and nothing is lost or doubled', async () => {
    const { url, id, running } = await parked(1)
    const seen: number[] = [1]
    let lastEventId = `${id}.1`
    for (const n of [2, 3, 4, 5, 6]) {
      const resumed = await resumeBy(url, id, lastEventId)
      // What was sent before the primer is there lies in the log, what is sent after it is
      // followed.
      if (n % 2 === 0) await resumed.next()
      emitNotes(running, n, n)
      const block = await resumed.next(({ data }) => data !== '')
      seen.push(...(numbers(resumed.messages()) as number[]))
      lastEventId = block.id!
      if (n % 3 === 0) resumed.reset()
      else resumed.destroy()
    }
    expect(seen).toEqual(upTo(6))
  })

  it.each(['%s.4', '%s.4.1', '%s.4.999'])(
    '204 when the stream is finished and this client has all of it: %s',
    async form => {
      const { url, id } = await finished(3)
      const resumed = await resumeBy(url, id, form.replace('%s', id))
      expect(resumed.status).toBe(204)
      expect(await resumed.ended).toBe('end')
      expect(resumed.bytes).toHaveLength(0)
    }
  )

  it('204 may be repeated, and the events are still there for another cursor', async () => {
    const { url, id } = await finished(3)
    for (const _ of upTo(3)) expect((await resumeBy(url, id, `${id}.4`)).status).toBe(204)
    const resumed = await ended(resumeBy(url, id, `${id}.2`))
    expect(numbers(resumed.messages())).toEqual([3, 'result'])
  })

  it('the endpoint sees one call and one close', async () => {
    const { url, id, running, streams } = await parked(1)
    for (const _ of upTo(3)) {
      const resumed = await resumeBy(url, id, `${id}.1`)
      await resumed.next()
      expect(running.isClosed).toBe(false)
      resumed.destroy()
    }
    expect(streams.stats().resumes).toBe(3)
    running.result()
    await running.closed
  })
})

describe('by GET of the stream URL without Last-Event-ID', () => {
  it.each([undefined, ''])(
    'a call starts at its first event, for a client that has seen nothing (%j)',
    async lastEventId => {
      const { url, id, running } = await parked(2)
      const resumed = await resume(`${url}?stream=${id}`, undefined, {
        ...(lastEventId === '' && { 'last-event-id': '' })
      })
      await resumed.take(3)
      running.result()
      await resumed.ended
      expect(numbers(resumed.messages())).toEqual([1, 2, 'result'])
    }
  )

  it('a finished call is given whole', async () => {
    const { url, id, stream } = await finished(3)
    const resumed = await ended(resume(`${url}?stream=${id}`))
    expect(resumed.messages()).toEqual(stream.messages())
  })

  it('works before the first event, when only the head has arrived', async () => {
    const { url, calls } = await mountScript(call => call.open())
    const stream = await call(url)
    stream.destroy()
    const resumed = await resume(streamUrlOf(url, stream))
    expect(resumed.status).toBe(200)
    expect(await resumed.next()).toMatchObject({ data: '', retry: 10 })
    const running = calls[0]!
    emitNotes(running, 1, 1)
    running.result()
    await resumed.ended
    expect(numbers(resumed.messages())).toEqual([1, 'result'])
  })

  it('works when the endpoint has written a head and flushed nothing', async () => {
    const { url, calls } = await mountScript(({ res }) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    })
    const stream = await call(url)
    expect(await stream.next()).toMatchObject({ data: '' })
    stream.destroy()
    const resumed = await resume(streamUrlOf(url, stream))
    calls[0]!.result()
    await resumed.ended
    expect(numbers(resumed.messages())).toEqual(['result'])
  })
})

describe('a stream that finished without a client', () => {
  it.each(WAYS)('is given to who comes back, by %s', async (_name, resumeBy) => {
    const { url, id, running, streams } = await parked(1)
    while (streams.stats().connections > 0) await new Promise(setImmediate)
    emitNotes(running, 2, 3)
    running.result()
    await running.closed
    const resumed = await ended(resumeBy(url, id, `${id}.1`))
    expect(numbers(resumed.messages())).toEqual([2, 3, 'result'])
  })
})

describe('HEAD', () => {
  it('has the status and headers of GET, and attaches to nothing', async () => {
    const { url, id, running, streams } = await parked(2)
    const following = await resume(`${url}?stream=${id}`)
    await following.take(3)
    const head = await openStream(`${url}?stream=${id}`, { method: 'HEAD', headers: MODERN })
    expect(head.status).toBe(200)
    expect(await head.ended).toBe('end')
    expect(head.headers).toMatchObject({
      'content-type': 'text/event-stream',
      link: `<?stream=${id}>; rel="stream"`
    })
    expect(head.bytes).toHaveLength(0)
    // The connection that was there has not been taken over.
    running.result()
    await following.ended
    expect(numbers(following.messages())).toEqual([1, 2, 'result'])
    expect(streams.stats().resumes).toBe(1)
    const delivered = await openStream(`${url}?stream=${id}`, {
      method: 'HEAD',
      headers: { 'last-event-id': `${id}.3` }
    })
    expect(delivered.status).toBe(204)
    const unknown = await openStream(`${url}?stream=${'x'.repeat(21)}`, { method: 'HEAD' })
    expect(unknown.status).toBe(404)
    await unknown.ended
    expect(unknown.bytes).toHaveLength(0)
  })
})

describe('DELETE', () => {
  it('cancels a running stream: the endpoint sees the close, and it cannot be resumed', async () => {
    const { url, id, running, streams } = await parked(2)
    const following = await resume(`${url}?stream=${id}`)
    await following.take(3)
    const deleted = await del(`${url}?stream=${id}`, MODERN)
    expect(deleted.status).toBe(204)
    await running.closed
    expect(await following.ended).toBe('end')
    running.result()
    for (const cursor of [undefined, `${id}.1`])
      expect((await resume(`${url}?stream=${id}`, cursor)).status).toBe(204)
    await supertest(url)
      .get('')
      .set({ ...MODERN, 'last-event-id': `${id}.1` })
      .expect(204)
    await supertest(`${url}?stream=${id}`).delete('').set(MODERN).expect(204)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0, connections: 0 })
  })

  it('removes a finished stream', async () => {
    const { url, id, streams } = await finished(3)
    expect(streams.stats().finished).toBe(1)
    await supertest(`${url}?stream=${id}`).delete('').set(MODERN).expect(204)
    expect(streams.stats()).toMatchObject({ finished: 0, bytes: 0 })
  })

  it('of an unknown stream is 404', async () => {
    const { url, calls } = await mountScript(() => {})
    const deleted = await del(`${url}?stream=${'x'.repeat(21)}`, MODERN)
    expect(deleted.status).toBe(404)
    expect(calls).toHaveLength(0)
  })
})

describe('other methods on a stream URL', () => {
  it.each(['PUT', 'PATCH', 'PROPFIND'])(
    '%s is 405, and neither the stream nor the endpoint notices',
    async method => {
      const { url, id, running, streams } = await parked(1)
      const refused = await openStream(`${url}?stream=${id}`, {
        method,
        headers: MODERN,
        body: { jsonrpc: '2.0' }
      })
      expect(refused.status).toBe(405)
      expect(refused.headers['allow']?.split(', ')).toEqual([
        'GET',
        'HEAD',
        'POST',
        'DELETE',
        'OPTIONS'
      ])
      expect(await refused.json()).toMatchObject({
        jsonrpc: '2.0',
        id: null,
        error: { code: -31000 }
      })
      const resumed = await resume(`${url}?stream=${id}`)
      running.result()
      await resumed.ended
      expect(numbers(resumed.messages())).toEqual([1, 'result'])
      expect(streams.stats().resumes).toBe(1)
    }
  )

  it('OPTIONS is the app’s: CORS is answered where the app answers it', async () => {
    const seen: (string | undefined)[] = []
    const streams = mcpStreams({ retry: 10 })
    const endpoint = rawEndpoint((call: RawCall) => call.result(), { stateless: true })
    const app = express()
      .use('/mcp', streams)
      .options('/mcp', (req, res) => {
        seen.push(req.url)
        res.setHeader('Access-Control-Allow-Methods', 'GET, POST, DELETE').status(204).end()
      })
      .all('/mcp', endpoint)
    const { url } = await listen(app)
    closeLater(() => streams.close({ drain: 0 }))
    const stream = await ended(call(`${url}/mcp`))
    for (const id of [streamIdOf(stream), 'unknown']) {
      const options = await openStream(`${url}/mcp?stream=${id}`, { method: 'OPTIONS' })
      expect(options.status).toBe(204)
      expect(options.headers['access-control-allow-methods']).toBe('GET, POST, DELETE')
      expect(seen.at(-1)).toBe(`/mcp?stream=${id}`)
    }
  })
})
