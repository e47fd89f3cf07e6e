// What patches `end` in front of us does its work there: express-session saves what the endpoint has
// put into the session, and does so behind a client that has gone.

import { afterEach, describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import session, { MemoryStore } from 'express-session'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, get, headersFor, notification, post, result } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const HEADERS = headersFor({ version: '2025-11-25', prefer: 'rel=stream' })
const NOTE = `data: ${JSON.stringify(notification('notifications/message', { data: 1 }))}\n\n`
const ANSWER = `data: ${JSON.stringify(result(7, {}))}\n\n`

type Request = IncomingMessage & { session: { answered?: boolean } }

async function cutBefore(end: (res: ServerResponse) => void, inFront: RequestHandler[]) {
  const goOn = gate()
  const endpoint = async (req: IncomingMessage, res: ServerResponse) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(NOTE)
    await goOn.opened
    ;(req as Request).session = Object.assign((req as Request).session ?? {}, { answered: true })
    end(res)
  }
  const { url, streams } = await serve(endpoint, {}, inFront)
  const first = await post(url, callTool(7, 'slow'), HEADERS)
  await first.nextMessage()
  first.destroy()
  await until(() => streams.stats().connections === 0)
  goOn.open()
  return async () => {
    const second = await get(streamUrl(first, url), HEADERS)
    await second.ended
    return second.messages()
  }
}

it('express-session saves what an endpoint says after its client has gone', async () => {
  const store = new MemoryStore()
  const options = {
    store,
    secret: 'secret',
    genid: () => 'id',
    resave: false,
    saveUninitialized: true
  }
  const comeBack = await cutBefore(res => res.end(ANSWER), [session(options)])
  const saved = () =>
    new Promise(resolve => {
      store.all((_error, sessions) => resolve(Object.values(sessions)))
    })
  await until(async () => JSON.stringify(await saved()).includes('"answered":true'))
  expect((await comeBack()).at(-1)).toEqual(result(7, {}))
})

describe('a patched `end`', () => {
  const ends: unknown[][] = []
  const counting: RequestHandler = (req, res, next) => {
    const { end } = res
    if (req.method === 'POST')
      res.end = ((...args: unknown[]) => {
        ends.push(args)
        return Reflect.apply(end, res, args) as unknown
      }) as typeof res.end
    next()
  }
  afterEach(() => void ends.splice(0))

  it.each<[what: string, end: (res: ServerResponse) => void, times: number]>([
    ['is called once behind a client that has gone', res => res.end(ANSWER), 1],
    ['is not called for an endpoint that breaks off', res => res.destroy(), 0]
  ])('%s', async (_what, end, times) => {
    const comeBack = await cutBefore(end, [counting])
    expect((await comeBack()).at(-1)).toMatchObject({ id: 7 })
    expect(ends).toEqual(Array(times).fill([]))
  })

  it('that throws is nobody else’s trouble', async () => {
    const comeBack = await cutBefore(
      res => res.end(ANSWER),
      [
        (req, res, next) => {
          if (req.method === 'POST')
            res.end = () => {
              throw new Error('from a hook on the end')
            }
          next()
        }
      ]
    )
    expect((await comeBack()).at(-1)).toEqual(result(7, {}))
  })
})
