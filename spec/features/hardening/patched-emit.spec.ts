// What traces requests, such as dd-trace, hears of the end of a response by its `emit`.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { ServerResponse } from 'node:http'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { Awaitable } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, get, headersFor, post } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const HEADERS = headersFor({ version: '2025-11-25' })

/** Notes what a response emits, as it is emitted. */
function patchEmit(res: { emit: ServerResponse['emit'] }, heard: Awaitable<string>): void {
  const { emit } = res
  res.emit = function (this: ServerResponse, event: string | symbol, ...args: unknown[]) {
    if (event === 'finish' || event === 'close') heard.push(`${this.req.method} ${event}`)
    return Reflect.apply(emit, this, [event, ...args]) as boolean
  }
}

function patching(heard: Awaitable<string>): RequestHandler {
  return (_req, res, next) => {
    patchEmit(res, heard)
    next()
  }
}

/** A call that is cut, and resumed: what was heard by the cut, and in the end. */
async function cutAndResume(heard: Awaitable<string>, inFront: RequestHandler[], own = false) {
  const listeners: string[] = []
  const endpoint = rawEndpoint(({ open, res }) => {
    for (const event of ['finish', 'close']) res.on(event, () => listeners.push(event))
    if (own) patchEmit(res, heard)
    open()
  })
  const listen: RequestHandler = (_req, res, next) => {
    res.once('close', () => listeners.push('in front: close'))
    next()
  }
  const { url } = await serve(endpoint, {}, [listen, ...inFront])
  const first = await post(url, callTool(1, 'any'), HEADERS)
  const call = await endpoint.calls.nth(1)
  await first.next()
  first.destroy()
  await until(() => listeners.includes('in front: close'))
  const atCut = { heard: [...heard], listeners: [...listeners] }
  const second = await get(streamUrl(first, url), {
    ...HEADERS,
    'Last-Event-ID': first.events[0]!.id!
  })
  call.result()
  expect(await second.ended).toBe('end')
  await call.closed
  await until(() => listeners.length === 4)
  expect(second.messages()).toHaveLength(1)
  return { atCut, listeners }
}

const AT_CUT = { heard: ['POST close'], listeners: ['in front: close'] }

describe('an emit that is patched', () => {
  it('in front of us hears the end of a call that is not cut', async () => {
    const heard = new Awaitable<string>()
    const { url } = await serve(
      rawEndpoint(call => call.result()),
      {},
      [patching(heard)]
    )
    expect(await (await post(url, callTool(1, 'any'), HEADERS)).ended).toBe('end')
    await heard.nth(2)
    expect(heard).toEqual(['POST finish', 'POST close'])
  })

  it('in front of us hears the cut, and listeners behind us do not', async () => {
    const heard = new Awaitable<string>()
    const { atCut, listeners } = await cutAndResume(heard, [patching(heard)])
    expect(atCut).toEqual(AT_CUT)
    expect(listeners.slice(1).toSorted()).toEqual(['close', 'finish', 'in front: close'])
    expect(heard.filter(event => event.startsWith('POST'))).toEqual(['POST close'])
  })

  it('on the prototype does the same', async () => {
    const heard = new Awaitable<string>()
    patchEmit(ServerResponse.prototype, heard)
    try {
      const { atCut } = await cutAndResume(heard, [])
      expect(atCut).toEqual(AT_CUT)
    } finally {
      delete (ServerResponse.prototype as { emit?: unknown }).emit
    }
  })

  it('behind us stays patched', async () => {
    const heard = new Awaitable<string>()
    const { atCut } = await cutAndResume(heard, [], true)
    expect(atCut).toEqual(AT_CUT)
  })
})
