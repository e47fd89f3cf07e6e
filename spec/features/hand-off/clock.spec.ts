// The wall clock may be set while streams are open (NTP, a machine that was restored): what lasts
// goes on as before.

import { afterEach, beforeEach, expect, it, jest } from '@jest/globals'
import { Awaitable } from '../../helpers/gate.js'
import { callTool, post } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { ANNOUNCED, askingEndpoint, QUICK } from './asking.js'

afterEach(() => void jest.restoreAllMocks())

/** How far the clock is off. */
let shift: number

beforeEach(() => {
  shift = 0
  const dateNow = Date.now
  jest.spyOn(Date, 'now').mockImplementation(() => dateNow() + shift)
})

it('a question is handed off, although it is an hour earlier by then', async () => {
  const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()))
  const { url } = await serve(endpoint, QUICK)
  const first = await post(url, callTool(1, 'any'), ANNOUNCED)
  await first.nextMessage()
  shift = -3_600_000
  expect(await first.ended).toBe('end')
})

it('comments keep a connection open', async () => {
  const endpoint = askingEndpoint(call => call.open())
  const { url } = await serve(endpoint, { keepAlive: 5 })
  const first = await post(url, callTool(1, 'any'), ANNOUNCED)
  const comments = new Awaitable<string>()
  first.response.on('data', chunk => comments.push(...(String(chunk).match(/keep-alive/g) ?? [])))
  await comments.nth(1)
  const { length } = comments
  shift = -3_600_000
  await comments.nth(length + 3)
})
