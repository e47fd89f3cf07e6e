// A call of an endpoint that has an event store of its own is cut at every byte of its body, and
// its client gets every message once, as soon as it has an id.

import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js'
import { expect, it } from '@jest/globals'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { callTool, get, initializeSession, post } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'

const AT_ONCE = 16
const STEPS = [1, 2]
const ALL = [...STEPS, 'counted to 2']

it('gets every message once, wherever the wire is cut', async () => {
  const endpoint = sdkV1Stateful({ eventStore: new InMemoryEventStore() })
  const { server } = await serve(endpoint, { maxStreams: 100_000 })
  const { port } = server.address() as { port: number }
  const proxy = await createCutProxy({
    target: port,
    plan({ message }) {
      const offset = Number(message?.params?.arguments?.key)
      if (Number.isNaN(offset)) return undefined
      return { by: offset % 2 === 0 ? 'fin' : 'rst', afterBytes: offset }
    }
  })
  const url = `${proxy.url}/mcp`
  const { headers } = await initializeSession(url, '2025-11-25')
  const call = (key: string, id: number) =>
    post(url, callTool(id, 'count', { key, n: STEPS.length }, key), headers)

  const whole = await call('whole', 9999)
  await whole.ended
  const { bytes } = proxy.passages.at(-1)!
  const head = bytes.response - whole.text.length

  /** What a client gets in all that is cut at an offset. */
  async function cutAt(offset: number): Promise<unknown[]> {
    const cut = await call(String(offset), 1000 + offset)
    await cut.ended
    const id = cut.blocks.findLast(block => block.id !== undefined)?.id
    const messages: Json[] = cut.messages()
    // It has nothing to come back with.
    if (id === undefined) return messages.length === 0 ? ALL : messages
    if (messages.at(-1)?.id === undefined) {
      const rest = await get(url, { ...headers, 'last-event-id': id })
      await rest.ended
      messages.push(...rest.messages())
    }
    return messages.map(({ params, result }) => params?.progress ?? result?.content[0].text)
  }

  const offsets = Array.from({ length: whole.text.length }, (_, i) => head + i)
  for (let i = 0; i < offsets.length; i += AT_ONCE) {
    const some = offsets.slice(i, i + AT_ONCE)
    expect(await Promise.all(some.map(cutAt))).toEqual(some.map(() => ALL))
  }
  expect(offsets.every(offset => endpoint.log.executions(String(offset)) === 1)).toBe(true)
})
