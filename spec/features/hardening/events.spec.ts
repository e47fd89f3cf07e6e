// Blocks that are no events: what they say to the connection passes, and the next event stays what
// it was.

import { expect, it } from '@jest/globals'
import { setImmediate as turn } from 'node:timers/promises'
import { gate } from '../../helpers/gate.js'
import { dispatched, RESULT, serveCase, SSE_TYPE } from '../endpoint/setup.js'

const DATA = RESULT.replace('event: message\n', '')

it.each<[what: string, block: string, passed: string]>([
  ['an event without data', 'event: ping\n\n', ''],
  ['comments', ': one\n: two\n\n', ': one\n: two\n'],
  ['a reconnection time', 'retry: 77\n\n', 'retry: 77\n'],
  ['all of it at once', 'event: ping\n: one\nretry: 77\nfoo: bar\n\n', ': one\nretry: 77\n']
])(
  '%s does not name the next event, which a client that is there gets with the rest',
  async (_what, block, passed) => {
    const go = gate()
    const { call } = await serveCase(async res => {
      res.writeHead(200, SSE_TYPE)
      await go.opened
      res.write(block)
      await turn()
      res.end(DATA)
    })
    const response = await call()
    await response.next()
    go.open()
    expect(await response.ended).toBe('end')
    expect(dispatched(response)).toEqual([{ type: 'message', data: DATA.slice(6, -2) }])
    const [, afterPrimer] = response.text.split('\n\n')
    const id = /^id: .*$/m.exec(afterPrimer!)![0]
    expect(`${afterPrimer}\n\n`.replace(`${id}\n`, '')).toBe(passed + DATA)
  }
)
