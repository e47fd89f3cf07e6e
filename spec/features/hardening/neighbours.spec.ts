// A middleware in front whose hook on the head throws takes down one response, and nothing else.

import { expect, it } from '@jest/globals'
import type { ServerResponse } from 'node:http'
import { gate } from '../../helpers/gate.js'
import { happenings } from '../../helpers/happenings.js'
import { NoResponseError } from '../../helpers/open-stream.js'
import { NODE, NOTE, serveCase, SSE_TYPE } from '../endpoint/setup.js'
import type { Middleware } from '../mounting/frameworks.js'

/** As a listener of `on-headers` that throws. */
const throwing: Middleware = (req, res, next) => {
  if (req.headers['x-neighbour'] === undefined)
    res.writeHead = () => {
      throw new Error('from a hook on the head')
    }
  next()
}

it.each<[what: string, answer: (res: ServerResponse) => unknown]>([
  ['that has only begun', res => res.writeHead(200, SSE_TYPE)],
  ['that writes at once', res => res.writeHead(200, SSE_TYPE).write(NOTE)]
])(
  'a response %s: its client is cut off, its stream fails, its endpoint is told',
  async (_what, answer) => {
    const failed = happenings('failed')
    const closed = gate()
    const behave = (res: ServerResponse) => {
      res.once('close', () => closed.open())
      answer(res)
    }
    const { call, expectNeighbourUnharmed } = await serveCase(behave, {}, chain =>
      NODE([throwing, ...chain])
    )
    await expect(call()).rejects.toThrow(NoResponseError)
    expect(await failed.nth(1)).toMatchObject({ state: 'failed', reason: 'no-response' })
    await closed.opened
    await expectNeighbourUnharmed()
  }
)
