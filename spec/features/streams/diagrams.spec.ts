// The sequence diagrams of the Streams draft, one spec each, named after its sections.

import { describe, expect } from '@jest/globals'
import { notification, request } from '../../helpers/mcp.js'
import { closed, counts, cut, end, go, pass, post } from '../../helpers/talk/client.js'
import { send, take, type Word } from '../../helpers/talk/client.js'
import { hold, note, result } from '../../helpers/talk/endpoint.js'
import { conversation, primer } from '../../helpers/talk/index.js'
import { create, end as endOf, INTERVAL, resume, STREAMS, UNKNOWN } from './setup.js'

const DRAFT = {
  ...{ session: 'mine', capabilities: STREAMS, options: { retry: 10 } },
  endpoint: [note(1), hold, note(2), hold, result]
}
/** It has read that its stream begins, and the first note, and has gone. */
const AWAY = [post, take(3), cut]
const back = (after: number | null) => resume(after, { id: null })
const ask = (method: string, headers = {}): Word =>
  send(({ stream }) => request('ask', method, { streamId: stream }), { headers })

describe('Disconnection and Resumption', () => {
  conversation('resuming sends the unsent messages, then the end', {
    ...DRAFT,
    client: [...AWAY, go, go, back(2), end],
    sees: ({ stream: id }) => [
      ...[primer, create(id, INTERVAL), 1, primer, 2, 'result', endOf(id), 'end']
    ],
    then: ({ response, runs }) => {
      expect([response.status, runs.length]).toEqual([200, 1])
      expect(response.headers['content-type']).toBe('text/event-stream')
    }
  })

  conversation(
    "the draft's example, without an id and without a cursor: what may have been lost is sent again",
    {
      ...DRAFT,
      client: [...AWAY, back(null), take(3), go, take(1), go, end],
      sees: ({ stream: id }) => [
        ...[primer, create(id, INTERVAL), 1],
        ...[primer, create(id, INTERVAL), 1, 2, 'result', endOf(id), 'end']
      ]
    }
  )

  const streamId = '550e8400-e29b-41d4-a716-446655440000'
  conversation('an id that is no stream gets an error', {
    ...DRAFT,
    client: [send(request('ask', 'stream/resume', { streamId })), end],
    sees: ['json', { jsonrpc: '2.0', id: 'ask', error: UNKNOWN }]
  })
})

describe('Streamable HTTP Considerations', () => {
  let headers: Record<string, string>
  const poll: Word = talk => ask('stream/poll', headers)(talk)
  const pending = (stream: string, status: string, pendingMessages: boolean) =>
    expect.objectContaining({
      result: expect.objectContaining({ streamId: stream, status, pendingMessages })
    })
  conversation('Last-Event-ID is the point from which a client resumes and polls', {
    ...DRAFT,
    endpoint: [note(1), hold, result],
    client: [
      ...AWAY,
      talk => (headers = { 'last-event-id': talk.cursor! }),
      ({ stream }) => expect(headers['last-event-id']).toBe(`${stream}.r1.2`),
      ...[poll, end, go, poll, end],
      talk =>
        talk.send({ headers, body: notification('stream/resume', { streamId: talk.stream }) }),
      end
    ],
    sees: ({ stream: id }) => [
      ...[primer, create(id, INTERVAL), 1, 'json', pending(id, 'live', false)],
      ...['json', pending(id, 'completed', true), primer, 'result', endOf(id), 'end']
    ]
  })
})

describe('Abandonment', () => {
  const WORLD = {
    ...{ ...DRAFT, clock: 'stopped' as const },
    options: { resumeInterval: { min: 0, max: 3600 } }
  }
  const gone = ['json', { jsonrpc: '2.0', id: 'ask', error: UNKNOWN }]
  conversation('a client that waits longer than max gets an error', {
    ...WORLD,
    client: [
      ...[...AWAY, pass(3_600_000 - 1), counts({ live: 1 }), pass(1), closed],
      ...[ask('stream/resume'), end, ask('stream/poll'), end]
    ],
    sees: ({ stream: id }) => [primer, create(id, { min: 0, max: 3600 }), 1, ...gone, ...gone]
  })

  describe.each(['stream/poll', 'stream/poll/all'])('%s in time', method => {
    conversation('keeps it', {
      ...WORLD,
      client: [
        ...[...AWAY, pass(3_000_000), ask(method), end],
        ...[pass(3_600_000 - 1), counts({ live: 1 }), pass(1), counts({ live: 0 })]
      ]
    })
  })
})
