// A rolling deploy of three instances under 500 open calls: each is answered, once.

import { expect, it } from '@jest/globals'
import { pass } from '../../helpers/backplane/cluster.js'
import { Hub } from '../../helpers/backplane/memory.js'
import { rawEndpoint, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { listen } from '../../helpers/listen.js'
import { callTool, get, headersFor, post } from '../../helpers/mcp.js'
import { until } from '../../helpers/happenings.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve, type Served } from '../../helpers/serve.js'
import { lastId, note, VERSION } from './setup.js'

const CALLS = 500

interface Member extends Served {
  readonly endpoint: RawEndpoint
}

it('a rolling deploy of three instances loses none of 500 calls', async () => {
  const hub = new Hub({ lease: 60_000 })
  const start = async (): Promise<Member> => {
    const endpoint = rawEndpoint(({ open }) => open())
    const options = { retry: 5, resumeInterval: { min: 0 }, backplane: hub.option() }
    const served = await serve(endpoint, options)
    await until(() => served.streams.stats().backplane!.up === 1)
    return { ...served, endpoint }
  }
  const able = await Promise.all([start(), start(), start()])
  const old = [...able]
  let turn = 0
  const { url } = await listen((req, res) => pass(req, res, able[turn++ % able.length]!))

  /**
   * A client that has shown that it comes back, and does so until it has its answer, to wherever
   * the front sends it.
   */
  async function call(id: number, own: string): Promise<Json[]> {
    const got: Json[] = []
    const opened = await post(own, callTool(id, 'any'), headersFor({ version: VERSION }))
    const first = await opened.next(block => block.id !== undefined)
    opened.destroy()
    const again = headersFor({ version: VERSION, lastEventId: first.id! })
    let response = await get(own, again)
    resumed++
    for (;;) {
      await response.ended
      got.push(...response.messages())
      if (got.some(message => message.id === id)) return got
      const lastEventId = lastId(response)
      response = await get(`${url}/mcp`, headersFor({ version: VERSION, lastEventId }))
    }
  }

  let resumed = 0
  const answers = Array.from({ length: CALLS }, (_, i) => call(i + 1, old[i % 3]!.url))
  const open = (): number => old.reduce((sum, { endpoint }) => sum + endpoint.calls.length, 0)
  await until(() => open() === CALLS && resumed === CALLS)
  for (const { endpoint } of old)
    for (const { emit, message } of endpoint.calls) emit(note(`begun ${message.id}`))

  for (const leaving of old) {
    able.splice(able.indexOf(leaving), 1, await start())
    const closed = leaving.streams.close()
    // All its clients have come back by the others.
    const { calls } = leaving.endpoint
    const relayed = (): number => leaving.streams.stats().backplane!.accepted!
    await until(() => relayed() === calls.length)
    for (const { emit, result, message } of calls) {
      emit(note(`moved ${message.id}`))
      result()
    }
    await closed
  }

  for (const [i, got] of (await Promise.all(answers)).entries()) {
    const id = i + 1
    expect(got.map(message => message.id ?? message.params.data)).toEqual([
      `begun ${id}`,
      `moved ${id}`,
      id
    ])
    expect(got.at(-1)).toHaveProperty('result')
  }
  expect(open()).toBe(CALLS)
})
