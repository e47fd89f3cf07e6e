// How many listen channels a session may have is for the endpoint to say: its 409 attaches a GET to
// the one there is.

import { describe, expect, it } from '@jest/globals'
import { connectV1 } from '../../helpers/clients.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { get } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { counts, cut, end, go, listen, on, resume, take } from '../../helpers/talk/client.js'
import { hold, leave, note, open, refuse, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, type Talk } from '../../helpers/talk/index.js'

const SESSION = { session: 'the-session' }
const channel = (...numbers: number[]) => [open, ...numbers.flatMap(n => [hold, note(n)]), hold]
/** By a 409 with a head of its own. */
const conflict: Line = ({ res }) => {
  res.statusMessage = 'No'
  res.setHeader('Content-Type', 'application/json').setHeader('ETag', '"refusal"')
  res.writeHead(409, { 'Content-Length': 9, 'X-Refusal': 'yes' })
  res.end('"refusal"')
}
/** Of which streams the connections are, in the order of their requests: `[0, 1, 1]`. */
const streams = (talk: Talk): number[] => {
  const ids = talk.wires.map(
    ({ response }) => /stream=([\w-]{21})/.exec(`${response.headers.link}`)?.[1]
  )
  return ids.map(id => ids.indexOf(id))
}
const calls =
  (count: number) =>
  ({ runs }: Talk): void =>
    expect(runs).toHaveLength(count)

describe('an endpoint that allows several listen channels per session', () => {
  conversation('is asked for a new channel by each GET, and each channel has its own messages', {
    ...SESSION,
    endpoint: [channel(1), channel(2)],
    client: [listen, listen, go({ run: 0 }), go({ run: 1 }), on(0, take(2)), take(2)],
    sees: [primer, 1, primer, 2],
    counts: { listening: 2, connections: 2, resumes: 0 },
    then: talk => expect(streams(talk)).toEqual([0, 1])
  })

  conversation('has each channel kept for a client that comes back with an event id', {
    ...SESSION,
    endpoint: [channel(1), channel(2, 3)],
    client: [
      ...[listen, listen, go({ run: 0 }), go({ run: 1 }), take(2), cut, go({ run: 1 })],
      ...[resume({ by: 'endpoint' }), take(2), on(0, take(2))]
    ],
    sees: [primer, 1, primer, 2, primer, 3],
    then: talk => expect(streams(talk)).toEqual([0, 1, 1])
  })

  conversation('is not asked for another channel while one without a client has messages left', {
    ...SESSION,
    endpoint: channel(1),
    client: [
      ...[listen, listen, cut, go({ run: 1 }), listen, take(2), calls(2)],
      // All are followed now, and none of them is taken over.
      ...[listen, calls(3)]
    ],
    sees: [primer, 1],
    counts: { listening: 3, connections: 3 },
    then: talk => expect(streams(talk)).toEqual([0, 1, 1, 3])
  })

  conversation(
    'but not any more: its 409 attaches to a channel that nobody follows, and reaches the client where there is none',
    {
      ...SESSION,
      endpoint: [channel(1), channel(2), [conflict]],
      client: [
        ...[listen, listen, listen, end],
        ({ response: { text, headers } }) =>
          expect([text, headers['x-refusal']]).toEqual(['"refusal"', 'yes']),
        ...[on(0, cut), listen, go({ run: 0 }), go({ run: 1 }), take(2), on(1, take(2))]
      ],
      sees: [primer, 2, '409', primer, 1],
      then: talk => expect(streams(talk).filter((_, n) => n !== 2)).toEqual([0, 1, 0])
    }
  )
})

describe('an endpoint that allows one listen channel per session', () => {
  conversation('is not asked while its channel has messages left', {
    ...SESSION,
    endpoint: [channel(1), [conflict]],
    client: [listen, cut, go, listen, take(2), calls(1)],
    sees: [primer, 1],
    then: talk => expect(streams(talk)).toEqual([0, 0])
  })

  const heard: string[] = []
  conversation(
    'is asked once; its 409 does not reach the client, and its response closes as usual',
    {
      ...SESSION,
      endpoint: [
        channel(1, 2),
        [
          ({ res }) => {
            for (const event of ['finish', 'close']) res.on(event, () => heard.push(event))
          },
          conflict,
          ({ res }) => heard.push(`${res.headersSent} ${res.writableEnded}`)
        ]
      ],
      client: [
        ...[listen, cut, listen, go({ run: 0 }), ({ runs }: Talk) => runs[1]!.call.closed],
        ({ response: { headers } }) => {
          expect(heard).toEqual(['true true', 'finish', 'close'])
          for (const name of ['x-refusal', 'etag', 'content-length'])
            expect(headers).not.toHaveProperty(name)
          expect(headers).toMatchObject({
            'content-type': 'text/event-stream',
            'mcp-session-id': 'the-session',
            'transfer-encoding': 'chunked'
          })
        },
        ...[take(2), go({ run: 0 }), take(1), cut, listen, calls(2)]
      ],
      sees: [primer, 1, 2],
      then: talk => expect(streams(talk)).toEqual([0, 0, 0])
    }
  )

  conversation('may leave its 409 without an end: it sees the close when the client leaves', {
    ...SESSION,
    endpoint: [channel(1), [({ res }) => res.writeHead(409).write('I am ')]],
    client: [
      ...[listen, listen, ({ call }: Talk) => expect(call.isClosed).toBe(false), cut],
      ...[({ call }: Talk) => call.closed, on(0, cut), go({ run: 0 }), listen, take(2)]
    ],
    sees: [primer, 1],
    then: talk => expect(streams(talk)).toEqual([0, 0, 0])
  })

  conversation('has its channel go on where the client leaves while it is asked', {
    ...SESSION,
    endpoint: [channel(1), [hold, conflict]],
    client: [
      listen,
      async ({ url, headers, runs }) => {
        const leaving = new AbortController()
        const sent = {
          headers: { ...headers, accept: 'text/event-stream' },
          signal: leaving.signal
        }
        const left = fetch(url, sent).catch(() => undefined)
        const { call } = await runs.nth(2)
        leaving.abort()
        await left
        await call.closed
      },
      ...[go({ run: 1 }), go({ run: 0 }), take(2)]
    ],
    sees: [primer, 1],
    counts: { listening: 1, connections: 1, resumes: 0 }
  })

  conversation('that ends the old one to open another gives a new channel', {
    ...SESSION,
    endpoint: [[open, hold, leave], channel(1)],
    inFront: [],
    client: [listen, go, on(0, end), listen, go, take(2)],
    sees: [primer, 'end', primer, 1],
    then: talk => expect(streams(talk)).toEqual([0, 1])
  })

  conversation(
    'has two clients that both follow it: the newer one has the messages until it leaves',
    {
      ...SESSION,
      options: { keepAlive: 100 },
      endpoint: [channel(1, 2), [conflict]],
      client: [
        ...[listen, listen, go({ run: 0 }), take(2)],
        // Neither is ended, so neither comes back in the other's place.
        async ({ wires, until }) => {
          for (const { response } of wires)
            await until(() => response.text.split(': keep-alive').length >= 4)
        },
        counts({ listening: 1, connections: 2, resumes: 1 }),
        ...[cut, on(0, end), go({ run: 0 })],
        ...[on(0, resume({ by: 'endpoint' })), take(3)]
      ],
      sees: [primer, 'end', primer, 1, primer, 1, 2]
    }
  )

  conversation('has a client that comes back for an ended channel attached to the present one', {
    ...SESSION,
    endpoint: [[open, note(1), hold, leave], channel(2), [conflict]],
    client: [
      ...[listen, take(2), go, end, listen, cut],
      ...[on(0, resume({ by: 'endpoint' })), go({ run: 1 }), take(2)]
    ],
    sees: [primer, 1, 'end', primer, 2],
    then: talk => expect(streams(talk)).toEqual([0, 1, 1])
  })

  describe.each([401, 404, 405, 500])('that answers %d', status => {
    conversation('has any other answer passed on', {
      ...SESSION,
      endpoint: [channel(), [refuse(status)]],
      client: [listen, listen, end, calls(2), listen, end, calls(3)],
      sees: [`${status}`, `${status}`],
      then: ({ response }) => expect(response.text).toBe('no')
    })
  })
})

describe('the endpoint of the SDK', () => {
  it('reports a conflict of channels once for all sessions of an owner', async () => {
    const endpoint = sdkV1Stateful()
    const { url, streams } = await serve(endpoint)
    const errors: Error[] = []
    for (let n = 0; n < 3; n++) {
      const { transport } = await connectV1(url)
      const { sessionId } = transport
      while (streams.stats().connections <= n) await new Promise(setImmediate)
      endpoint.sessions.get(sessionId!)!.transport.onerror = error => errors.push(error)
      const headers = { 'mcp-session-id': sessionId!, 'mcp-protocol-version': '2025-11-25' }
      expect((await get(url, headers)).status).toBe(200)
    }
    expect(errors).toHaveLength(1)
  })
})
