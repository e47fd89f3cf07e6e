// The endpoint works on the client's own request, whether its call becomes a task or not.

import { describe, expect } from '@jest/globals'
import { currentStream, type CurrentStream } from '../../../lib/index.js'
import { cancelled, notification, result } from '../../helpers/mcp.js'
import { arrived, closed, cut, end, go, meanwhile } from '../../helpers/talk/client.js'
import { resume, send, take, type Word } from '../../helpers/talk/client.js'
import { emit, hold, note, resultIs, type Line, type Script } from '../../helpers/talk/endpoint.js'
import { conversation, primer } from '../../helpers/talk/index.js'
import { RESULT } from './setup.js'
import { become, begin, call, cancelTask, idsOf, modern, ran, task } from './words.js'

const PROGRESS = notification('notifications/progress', { progressToken: 'p', progress: 1 })
const ANNOUNCED = { prefer: 'rel=stream' }
const GONE = { tasks: 0, bytes: 0 }
const PATIENT = { after: 60_000 }

describe('a call that becomes no task', () => {
  const text = '{ "jsonrpc" : "2.0",\n  "id":"mine", "result": {} }\n'
  const writes: Line = ({ res }) => {
    res.writeHead(201, 'Made', { 'Content-Type': 'application/json', 'X-Own': 'yes' })
    res.write(text.slice(0, 20))
    res.end(text.slice(20))
  }
  conversation('is answered by the endpoint, byte for byte', {
    ...modern(PATIENT),
    endpoint: [writes],
    client: [call({ id: 'mine' }), end],
    counts: GONE,
    then({ response }) {
      expect([response.status, response.headers['x-own']]).toEqual([201, 'yes'])
      expect(response.text).toBe(text)
    }
  })

  conversation('is the endpoint’s own event stream, to its end', {
    ...modern(PATIENT),
    endpoint: [emit(PROGRESS), hold, resultIs(RESULT)],
    client: [
      call,
      // Nobody could come back to it.
      ({ response }) => expect(response.headers).not.toHaveProperty('link'),
      ...[go, end]
    ],
    sees: [PROGRESS, result(1, RESULT), 'end'],
    counts: GONE
  })

  conversation.each<[string, Script, Word[]]>([
    ['its response ends', [note(1), hold], [call]],
    ['its response begins', [hold], [meanwhile(call), arrived(1)]]
  ])('is over for the endpoint when its client leaves before %s', (_name, endpoint, begun) => ({
    ...{ ...modern(PATIENT), endpoint },
    client: [...begun, cut, closed],
    counts: GONE
  }))
})

describe('a call that becomes a task', () => {
  conversation('is the answer to what a client comes back for whose wire was cut before', {
    ...modern({ after: 200 }),
    endpoint: [emit(PROGRESS), hold, resultIs(RESULT)],
    client: [
      ...[call({ headers: ANNOUNCED }), take(2), cut],
      ...[
        resume({ by: 'endpoint', ...ANNOUNCED }),
        become,
        go,
        task('completed', { result: RESULT })
      ]
    ],
    sees: [
      primer,
      PROGRESS,
      primer,
      expect.objectContaining({ result: expect.objectContaining({ resultType: 'task' }) }),
      'end'
    ]
  })

  const keyed = { headers: { 'idempotency-key': 'sent-once-and-again', ...ANNOUNCED } }
  conversation('is the answer to its repetitions under a key, though its client has left before', {
    ...modern({ after: 100 }),
    client: [
      ...[meanwhile(call(keyed)), arrived(1), cut, begin(keyed), begin(keyed)],
      ...[go, task('completed'), ran(1)]
    ],
    then: talk => expect(new Set(idsOf(talk)).size).toBe(1)
  })

  conversation('is not cancelled with the request that it has begun with', {
    ...modern({}, { owner: () => 'one' }),
    client: [
      ...[begin({ id: 5 }), send(cancelled(5)), end],
      ({ call }) => expect(call.isClosed).toBe(false),
      ...[go, task('completed')]
    ],
    sees: ['202'],
    hears: ['tools/call', 'notifications/cancelled']
  })

  let stream: CurrentStream | undefined
  let signal: AbortSignal | undefined
  const looks: Line = () => {
    stream = currentStream()
    signal = stream?.signal
  }
  const seen = (): unknown[] => [stream?.state, signal?.aborted]
  conversation('tells its handler by the signal that it had before when nobody wants it', {
    ...modern({ after: 60 }),
    endpoint: [looks, emit(PROGRESS), hold],
    client: [
      begin,
      () => expect([...seen(), stream?.disconnect()]).toEqual(['live', false, undefined]),
      cancelTask()
    ],
    then: () => expect(seen()).toEqual(['cancelled', true])
  })
})
