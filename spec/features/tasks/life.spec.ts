// How long a task can be found, what it costs, and what becomes of it when the process ends.

import { describe, expect, jest } from '@jest/globals'
import type { RequestHandler } from 'express'
import { gate } from '../../helpers/gate.js'
import { happenings } from '../../helpers/happenings.js'
import { callTool, result } from '../../helpers/mcp.js'
import { arrived, close, closed, counts, end, go } from '../../helpers/talk/client.js'
import { meanwhile, post, until, wait, type Word } from '../../helpers/talk/client.js'
import { hold, json, resultIs } from '../../helpers/talk/endpoint.js'
import { conversation, type Talk } from '../../helpers/talk/index.js'
import { elicitation, inputRequired, RESULT } from './setup.js'
import { begin, call, modern, task, told, update } from './words.js'

/** So many milliseconds later, for all that lasts. */
const after =
  (milliseconds: number): Word =>
  () => {
    const time = performance.now() + milliseconds
    jest.spyOn(performance, 'now').mockImplementation(() => time)
  }
const GONE = { tasks: 0, bytes: 0 }
const DONE = ['json', result(1, RESULT)]
const bytes = (from: number, to: number) => (talk: Talk) => {
  expect(talk.stats().bytes).toBeGreaterThan(from)
  expect(talk.stats().bytes).toBeLessThan(to)
}
const content = [{ type: 'text', text: 'x'.repeat(10_000) }]
const asking = [
  [hold, json(inputRequired({ q: elicitation('Which?') }))],
  [hold, json(RESULT)]
]

describe('a task', () => {
  const unknown = (of: number): Word => told('tasks/get', { error: { code: -32602 } }, { of })
  conversation('is found for its whole time, and not a moment longer', {
    ...modern({ ttl: { default: 60_000 } }),
    client: [
      ...[begin, begin, go({ run: 0 }), task('completed', {}, { of: 1 }), after(50_000)],
      task('completed', { result: RESULT, ttlMs: 60_000 }, { of: 1 }),
      ...[task('working'), after(11_000), unknown(1), unknown(2)],
      // What still runs is for nobody any more.
      closed
    ],
    counts: GONE
  })

  conversation('is let go when its time is over, without anybody asking', {
    ...modern({ ttl: { default: 50 } }),
    client: [begin, arrived(1), closed, until(({ streams }) => streams.stats().tasks === 0)],
    counts: GONE
  })

  conversation('does not end because nobody looks: its client may be away for its time', {
    ...modern({}, { resumeInterval: { max: 0.02 } }),
    client: [
      ...[begin, arrived(1), wait(60), ({ call }: Talk) => expect(call.isClosed).toBe(false)],
      ...[go, task('completed')]
    ]
  })

  conversation('counts what is kept of it, and nothing once its result is all', {
    ...modern(),
    endpoint: [hold, json({ content })],
    client: [begin, bytes(100, 1000), go, task('completed'), bytes(10_000, 10_500)],
    counts: { tasks: 1 }
  })
})

describe('the request of a call', () => {
  const LARGE = 100_000
  const large = { params: { arguments: { text: 'x'.repeat(LARGE) } } }

  conversation('counts as long as the call may become a task, since further rounds repeat it', {
    ...modern({ after: 60_000 }),
    client: [meanwhile(call(large)), arrived(1), bytes(LARGE, LARGE + 1000), go, end],
    sees: DONE,
    counts: GONE
  })

  conversation('counts for the task and for the endpoint that works on it, while they need it', {
    ...modern(),
    client: [
      ...[begin(large), arrived(1), bytes(2 * LARGE, 2 * LARGE + 8000)],
      ...[go, task('completed'), bytes(0, 1000)]
    ]
  })

  conversation('is none that becomes a task where there is no room: the endpoint answers', {
    ...modern({ after: 20 }, { maxBytes: LARGE / 2, maxStreamBytes: LARGE / 2 }),
    client: [meanwhile(call(large)), arrived(1), wait(60), counts(GONE), go, end],
    sees: DONE
  })
})

describe('the end of the process', () => {
  let isClosed = false
  const closing =
    (drain: number): Word =>
    talk => {
      isClosed = false
      void talk.streams.close({ drain }).then(() => (isClosed = true))
    }
  const whenClosed = until(() => isClosed)

  conversation('waits for tasks that run, and makes no new ones', {
    ...modern(),
    client: [
      ...[begin, closing(10_000), meanwhile(call), arrived(2), go, end, task('working')],
      ...[go({ run: 0 }), task('completed'), whenClosed]
    ],
    sees: DONE
  })

  conversation('does not wait for a task from when it waits for its client', {
    ...{ ...modern(), endpoint: asking },
    client: [begin, closing(120_000), go, whenClosed, task('input_required')]
  })

  conversation('waits for a task that goes on with what its client has answered meanwhile', {
    ...modern(),
    endpoint: [asking[0]!, [({ open }) => open(), hold, resultIs({})], asking[1]!],
    client: [
      ...[begin, go, task('input_required')],
      ...[post({ version: '2025-11-25', message: callTool(2, 'any') }), closing(10_000)],
      ...[update({ 'r1.q': {} }), arrived(3), go({ run: 1 }), end, task('working')],
      ...[() => expect(isClosed).toBe(false), go, whenClosed, task('completed')]
    ]
  })

  const asked = gate()
  const admit = gate()
  const inFront: RequestHandler = async ({ headers }, _res, next) => {
    if (headers['mcp-method'] === 'server/discover') await (asked.open(), admit.opened)
    next()
  }
  conversation('makes no task of a call whose client is being asked about, and no refusal', {
    ...modern({ tools: { report: 'always' } }, {}, { inFront: [inFront] }),
    endpoint: [json(RESULT)],
    client: [
      async talk => {
        const refused = happenings('refused')
        await talk.plays(
          meanwhile(call),
          () => asked.opened,
          closing(10_000),
          () => admit.open(),
          end,
          whenClosed
        )
        expect(refused).toEqual([])
      }
    ],
    sees: DONE
  })

  conversation('gives up what has not ended in time', {
    ...modern(),
    client: [begin, arrived(1), close({ drain: 0 }), closed],
    counts: GONE
  })
})
