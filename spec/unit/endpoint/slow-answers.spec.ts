// Which slow answers may become event streams, by what their client says that it accepts.

import { expect, it } from '@jest/globals'
import { SlowAnswers } from '../../../lib/endpoint/slow-answers.js'
import { LONGEST_FIELD } from '../../../lib/protocol/fields.js'

const slow = new SlowAnswers({ upgradeAfter: null, jsonKeepAlive: null, maxSessions: 1 })

it.each([
  ['application/json, text/event-stream', true],
  ['text/event-stream;q=0, application/json', false],
  ['*/*', false],
  ['', false]
])('Accept: %s: %s', (accept, may) => {
  expect(slow.mayUpgrade(accept)).toBe(may)
})

it('of more than 16 KiB is not looked into', () => {
  const longest = 'text/event-stream,'.padEnd(LONGEST_FIELD, 'x')
  expect(slow.mayUpgrade(longest)).toBe(true)
  expect(slow.mayUpgrade(`${longest}x`)).toBe(false)
})
