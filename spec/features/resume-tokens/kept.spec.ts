// What is kept of calls: counted, for a time, and no more than it takes to give their results.

import { describe, expect } from '@jest/globals'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { RawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { counts, go, type Word } from '../../helpers/talk/client.js'
import { hold, json } from '../../helpers/talk/endpoint.js'
import { conversation, upTo } from '../../helpers/talk/index.js'
import { report, TEXT, tokens } from './setup.js'

describe('stats()', () => {
  const text = 'x'.repeat(1200)
  const hasBytes: Word = talk => expect(talk.stats().bytes).toBeGreaterThan(text.length)
  conversation(
    'count calls that run and results that are kept, in bytes, and those that had to make room',
    {
      ...tokens({}, { maxBytes: 2000, maxStreamBytes: 2000 }),
      endpoint: [hold, json({ content: [{ type: 'text', text }] })],
      client: [
        ...[report, counts({ calls: 1, bytes: 0, evictions: 0, live: 0 })],
        ...[go, report({ token: 1 }), counts({ calls: 1, evictions: 0 }), hasBytes],
        ...[report, counts({ calls: 2, evictions: 0 })],
        ...[go, report({ token: 2 }), counts({ calls: 1, evictions: 1 })]
      ],
      then: talk => expect(talk.stats().bytes).toBeLessThan(2000)
    }
  )

  conversation('count nothing of a call that had its result at once', {
    ...tokens({ after: 5000 }),
    endpoint: [json(TEXT)],
    client: [report],
    counts: { calls: 0, bytes: 0 }
  })
})

describe('a result', () => {
  const CALLS = 10
  const requests: WeakRef<object>[] = []
  conversation('is kept without the requests that it came by', {
    ...tokens(),
    inFront: [(req, _res, next) => next(void requests.push(new WeakRef(req)))],
    endpoint: [hold, json(TEXT)],
    client: [
      ...upTo(CALLS).flatMap(token => [report({ wait: 0 }), go, report({ token })]),
      counts({ calls: CALLS }),
      ({ runs, requests, endpoint: { handler } }) => {
        runs.length = requests.length = (handler as RawEndpoint).calls.length = 0
      }
    ],
    then: async () => {
      expect(requests).toHaveLength(2 * CALLS)
      setFlagsFromString('--expose-gc')
      const collectGarbage = runInNewContext('gc') as () => void
      // The last ones may be in the hands of their sockets.
      await until(() => {
        collectGarbage()
        return requests.filter(request => request.deref() !== undefined).length < CALLS / 2
      })
    },
    counts: { calls: CALLS }
  })
})
