// Resuming: by the stream URL, with a cursor and without; and on the endpoint, as the official
// clients do it.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { mcpStreams } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeLater, listen, type Handler } from '../../helpers/listen.js'
import { callTool, post as postTo } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { streamId } from '../../helpers/serve.js'
import { closed, cut, drop, end, go, on, post } from '../../helpers/talk/client.js'
import { request, resume, take, WAYS } from '../../helpers/talk/client.js'
import { hold, note, notes, open, result } from '../../helpers/talk/endpoint.js'
import { conversation, play, primer, upTo, type Talk } from '../../helpers/talk/index.js'

/** A call that has sent some messages and lives on; its client has them, and has gone. */
const parked = (messages: number) => ({
  endpoint: [open, notes(1, messages), hold, result],
  begin: [post, take(messages + 1), cut],
  seen: [primer, ...upTo(messages)]
})
/** A call that has sent messages 1 to 3 and its result. */
const FINISHED = {
  endpoint: [notes(1, 3), result],
  begin: [post, end],
  seen: [primer, 1, 2, 3, 'result', 'end']
}
const UNKNOWN = 'x'.repeat(21)
const isClosed = ({ call }: Talk): boolean => call.isClosed

describe.each(WAYS)('by GET of %s with Last-Event-ID', (_name, by) => {
  it('gives the rest of a call that ends while its stream is looked for', async () => {
    let talk: Talk
    const { endpoint, begin, seen } = parked(2)
    await play({
      endpoint,
      inFront: [
        ({ method }, _res, next) => {
          next()
          if (method === 'GET') talk.call.result()
        }
      ],
      client: [t => (talk = t), ...begin, resume({ by, after: 1 }), end],
      sees: [...seen, primer, 2, 'result', 'end']
    })
  })

  describe.each([0, 1, 2, 3])('after event %d', cursor => {
    const primerId = expect.stringMatching(`^r1\\.${cursor}\\.[1-9]\\d*$`)

    conversation('a finished stream gives what came after it, once, and ends', {
      endpoint: FINISHED.endpoint,
      client: [...FINISHED.begin, resume({ by, after: cursor }), end],
      sees: [...FINISHED.seen, primer, ...[1, 2, 3, 'result'].slice(cursor), 'end'],
      ids: [
        ...['r1.0.1', 'r1.1', 'r1.2', 'r1.3', 'r1.4'],
        ...[primerId, ...['r1.1', 'r1.2', 'r1.3', 'r1.4'].slice(cursor)]
      ]
    })

    conversation('a live stream gives what came after it, and then what comes', {
      endpoint: [notes(1, 3), hold, note(4), hold, result],
      client: [
        post,
        take(4),
        cut,
        resume({ by, after: cursor }),
        take(4 - cursor),
        go,
        take(1)
      ].concat([go, end]),
      sees: [primer, 1, 2, 3, primer, ...[1, 2, 3, 4, 'result'].slice(cursor), 'end']
    })
  })

  conversation('the id of a primer means the event before it', {
    endpoint: parked(2).endpoint,
    client: [...parked(2).begin, resume({ by }), take(1), cut, resume({ by }), take(1), go, end],
    sees: [primer, 1, 2, primer, primer, 'result', 'end'],
    then: talk => {
      const [first, second] = talk.ids().slice(3)
      for (const id of [first, second]) expect(id).toMatch(/^r1\.2\.\d+$/)
      expect(second).not.toBe(first)
    }
  })

  conversation('works before the first event, from the primer on', {
    endpoint: [open, hold, notes(1, 2), result],
    client: [post, take(1), cut, resume({ by, after: 'ID.0.1' }), take(1)].concat([
      talk => expect(isClosed(talk)).toBe(false),
      go,
      end
    ]),
    sees: [primer, primer, 1, 2, 'result', 'end']
  })

  conversation('works again and again: each connection is cut, and nothing is lost or doubled', {
    endpoint: [1, 2, 3, 4, 5, 6].flatMap(n => [note(n), hold]),
    client: [
      ...[post, take(2), cut],
      // What is sent before the primer is there lies in the log, what is sent after it is followed.
      ...[resume({ by }), take(1), go, take(1), cut],
      ...[resume({ by }), go, take(2), cut({ by: 'rst' })],
      ...[resume({ by }), take(1), go, take(1), cut],
      ...[go, resume({ by }), take(2), cut],
      ...[resume({ by }), take(1), go, take(1), cut({ by: 'rst' })]
    ],
    sees: upTo(6).flatMap(n => [primer, n])
  })

  describe.each(['ID.4', 'ID.4.1', 'ID.4.999'])('with %s, all of a finished stream', after => {
    conversation('is 204, and nothing more', {
      endpoint: FINISHED.endpoint,
      client: [...FINISHED.begin, resume({ by, after }), end],
      sees: [...FINISHED.seen, '204'],
      then: ({ response }) => expect(response.bytes).toHaveLength(0)
    })
  })

  conversation('204 may be repeated, and the events are still there for another cursor', {
    endpoint: FINISHED.endpoint,
    client: [
      ...FINISHED.begin,
      ...upTo(3).map(() => resume({ by, after: 4 })),
      resume({ by, after: 2 }),
      end
    ],
    sees: [...FINISHED.seen, '204', '204', '204', primer, 3, 'result', 'end']
  })

  conversation('the endpoint sees one call and one close', {
    endpoint: parked(1).endpoint,
    client: [
      ...parked(1).begin,
      ...upTo(3).flatMap(() => [resume({ by, after: 1 }), take(1), cut]),
      talk => expect(isClosed(talk)).toBe(false),
      go,
      closed
    ],
    sees: [primer, 1, primer, primer, primer],
    hears: ['tools/call'],
    counts: { resumes: 3 }
  })

  conversation('a stream that finished without a client is given to who comes back', {
    endpoint: [note(1), hold, notes(2, 3), result],
    client: [post, take(2), cut, go, closed, resume({ by, after: 1 }), end],
    sees: [primer, 1, primer, 2, 3, 'result', 'end']
  })
})

describe('by GET of the stream URL without Last-Event-ID', () => {
  describe.each([undefined, ''])('as %j', value => {
    conversation('a call starts at its first event, for a client that has seen nothing', {
      endpoint: parked(2).endpoint,
      client: [
        ...parked(2).begin,
        resume({ after: null, ...(value === '' && { headers: { 'last-event-id': '' } }) }),
        ...[take(3), go, end]
      ],
      sees: [primer, 1, 2, primer, 1, 2, 'result', 'end']
    })
  })

  conversation('a finished call is given whole', {
    endpoint: FINISHED.endpoint,
    client: [...FINISHED.begin, resume({ after: null }), end],
    sees: [...FINISHED.seen, ...FINISHED.seen],
    then: ({ wires: [first, again] }) => expect(again!.messages).toEqual(first!.messages)
  })

  conversation('works before the first event, when only the head has arrived', {
    endpoint: [open, hold, note(1), result],
    options: { retry: 10 },
    client: [post, cut, resume({ after: null }), take(1), go, end],
    sees: [primer, 1, 'result', 'end'],
    then: ({ wire }) => expect(wire.blocks[0]).toMatchObject({ data: '', retry: 10 })
  })

  conversation('works when the endpoint has written a head and flushed nothing', {
    endpoint: [
      ({ res }) => res.writeHead(200, { 'Content-Type': 'text/event-stream' }),
      hold,
      result
    ],
    client: [post, take(1), cut, resume({ after: null }), go, end],
    sees: [primer, primer, 'result', 'end']
  })
})

describe('HEAD', () => {
  const head = (url: (talk: Talk) => string, lastEventId?: string) =>
    request('HEAD', talk => ({
      url: url(talk),
      lastEventId: lastEventId && talk.stream + lastEventId
    }))

  conversation('has the status and headers of GET, and attaches to nothing', {
    endpoint: parked(2).endpoint,
    client: [
      ...parked(2).begin,
      ...[resume({ after: null }), take(3)],
      ...[head(({ link }) => link), end],
      ({ response, stream }) => {
        expect(response.headers).toMatchObject({
          'content-type': 'text/event-stream',
          link: `<?stream=${stream}>; rel="stream"`
        })
        expect(response.bytes).toHaveLength(0)
      },
      // The connection that was there has not been taken over.
      ...[go, on(1, end)],
      ...[head(({ link }) => link, '.3'), head(({ url }) => `${url}?stream=${UNKNOWN}`), end]
    ],
    sees: [primer, 1, 2, primer, 1, 2, 'result', 'end', 'end', '204', '404'],
    counts: { resumes: 1 },
    then: ({ response }) => expect(response.bytes).toHaveLength(0)
  })
})

describe('DELETE', () => {
  conversation('cancels a running stream: the endpoint sees the close, and it cannot be resumed', {
    endpoint: parked(2).endpoint,
    client: [
      ...parked(2).begin,
      ...[resume({ after: null }), take(3)],
      ...[drop, closed, on(1, end), go],
      ...[resume({ after: null }), resume({ after: 1 }), resume({ by: 'endpoint', after: 1 }), drop]
    ],
    sees: [primer, 1, 2, primer, 1, 2, 'end', '204', '204', '204', '204', '204'],
    hears: ['tools/call', 'close'],
    counts: { live: 0, finished: 0, bytes: 0, connections: 0 }
  })

  conversation('removes a finished stream', {
    endpoint: FINISHED.endpoint,
    client: [...FINISHED.begin, talk => expect(talk.stats().finished).toBe(1), drop],
    sees: [...FINISHED.seen, '204'],
    counts: { finished: 0, bytes: 0 }
  })

  conversation('of an unknown stream is 404', {
    client: [request('DELETE', ({ url }) => ({ url: `${url}?stream=${UNKNOWN}` })), end],
    sees: ['404 stream-unknown'],
    hears: []
  })
})

describe('other methods on a stream URL', () => {
  describe.each(['PUT', 'PATCH', 'PROPFIND'])('%s', method => {
    conversation('is 405, and neither the stream nor the endpoint notices', {
      endpoint: parked(1).endpoint,
      client: [
        ...parked(1).begin,
        ...[request(method, ({ link }) => ({ url: link, body: { jsonrpc: '2.0' } })), end],
        async ({ response }) => {
          expect(response.headers['allow']).toBe('GET, HEAD, POST, DELETE, OPTIONS')
          const error = { code: -31000 }
          expect(await response.json()).toMatchObject({ jsonrpc: '2.0', id: null, error })
        },
        ...[resume({ after: null }), go, end]
      ],
      sees: [primer, 1, '405 method-not-allowed', primer, 1, 'result', 'end'],
      hears: ['tools/call'],
      counts: { resumes: 1 }
    })
  })

  it('OPTIONS is the app’s: CORS is answered where the app answers it', async () => {
    const seen: (string | undefined)[] = []
    const streams = mcpStreams()
    const app = express()
      .use('/mcp', streams)
      .options('/mcp', (req, res) => {
        seen.push(req.url)
        res.setHeader('Access-Control-Allow-Methods', 'GET, POST, DELETE').status(204).end()
      })
      .all('/mcp', rawEndpoint(call => call.result()) as Handler)
    const url = `${(await listen(app)).url}/mcp`
    closeLater(() => streams.close({ drain: 0 }))
    const stream = await postTo(url, callTool(1, 'any'))
    await stream.ended
    for (const id of [streamId(stream), 'unknown']) {
      const options = await openStream(`${url}?stream=${id}`, { method: 'OPTIONS' })
      expect(options.status).toBe(204)
      expect(options.headers['access-control-allow-methods']).toBe('GET, POST, DELETE')
      expect(seen.at(-1)).toBe(`/mcp?stream=${id}`)
    }
  })
})
