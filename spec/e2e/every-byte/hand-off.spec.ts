// The POST of the answers is cut at every byte, in both directions: the endpoint sees each answer
// once, the client every message.

import { describe, expect, it } from '@jest/globals'
import {
  createCutProxy,
  type CutBy,
  type Direction,
  type ProxiedRequest
} from '../../helpers/cut-proxy.js'
import { callTool, notification, post } from '../../helpers/mcp.js'
import { streamUrl, serve } from '../../helpers/serve.js'
import {
  ANNOUNCED,
  askingEndpoint,
  QUICK,
  UNANNOUNCED,
  yes
} from '../../features/hand-off/asking.js'
import { SepClient } from '../../features/hand-off/sep-client.js'

const AT_ONCE = 8

const isHandOver = ({ method, url }: ProxiedRequest): boolean =>
  method === 'POST' && url.includes('stream=')

/** Two turns, a note in each; calls are told apart by their key, and so are their requests. */
async function world() {
  const endpoint = askingEndpoint(async (call, ask) => {
    const { key } = call.message.params.arguments
    const first = await ask(`${key} a`)
    call.emit(notification('notifications/message', { data: `${key} note` }))
    const second = await ask(`${key} b`)
    call.result([first.result.content.name, second.result.content.name])
  })
  const served = await serve(endpoint, { ...QUICK, handoffAfter: 1, maxStreams: 100_000 })
  const proxy = await createCutProxy({
    target: Number(new URL(served.url).port),
    plan: request => {
      const [by, direction, afterBytes] = (request.headers['x-cut'] ?? '').split(' ')
      if (afterBytes === undefined || !isHandOver(request)) return undefined
      const nth = (seen.get(request.headers['x-key']!) ?? 0) + 1
      seen.set(request.headers['x-key']!, nth)
      // The first hand-over of the call: its repetition gets through.
      return nth === 1
        ? { by: by as CutBy, direction: direction as Direction, afterBytes: Number(afterBytes) }
        : undefined
    }
  })
  const seen = new Map<string, number>()
  return { ...served, endpoint, proxy, proxied: `${proxy.url}/mcp` }
}

type World = Awaited<ReturnType<typeof world>>

async function callThrough(
  { proxied, endpoint }: World,
  own: Record<string, string>,
  key: string,
  cut = ''
) {
  const client = new SepClient(proxied, {
    headers: { ...own, 'x-key': key, ...(cut !== '' && { 'x-cut': cut }) },
    answer: ({ id }) => yes(id, `for ${id}`)
  })
  const call = await client.call(callTool(1, 'any', { key }))
  expect(call.response.result).toEqual([`for ${key} a`, `for ${key} b`])
  const heard = call.messages.filter(({ method }) => method !== 'ping')
  expect(heard.map(({ id, params }) => id ?? params.data)).toEqual([
    `${key} a`,
    `${key} note`,
    `${key} b`
  ])
  const answers = endpoint.answers.filter(({ message }) => String(message.id).startsWith(`${key} `))
  expect(answers.map(({ message }) => message.id)).toEqual([`${key} a`, `${key} b`])
  return call
}

const keyOf = (n: number): string => `k${String(n).padStart(6, '0')}`

describe.each<[name: string, headers: Record<string, string>, bytes: string, step: number]>([
  ['that has announced itself', ANNOUNCED, 'every byte', 1],
  ['that has proved itself only', UNANNOUNCED, 'every 7th byte', 7]
])('a hand-over of a client %s survives a cut at %s', (_name, own, _bytes, step) => {
  it.each<Direction>(['request', 'response'])('of the %s', async direction => {
    const w = await world()
    await callThrough(w, own, keyOf(0))
    const most = w.proxy.passages.find(isHandOver)!.bytes[direction]
    expect(most).toBeGreaterThan(300)
    const offsets = Array.from({ length: Math.ceil(most / step) }, (_, i) => i * step).values()
    const worker = async (): Promise<void> => {
      for (const offset of offsets) {
        await callThrough(
          w,
          own,
          keyOf(offset + 1),
          `${offset % 2 === 0 ? 'fin' : 'rst'} ${direction} ${offset}`
        )
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))
    // Chunks fall a little differently from call to call, so a few of the last offsets may lie
    // behind the end.
    expect(w.proxy.cuts.length).toBeGreaterThan((most - 40) / step)
    expect(w.streams.stats()).toMatchObject({ live: 0, waiting: 0, connections: 0 })
  })
})

it.each<Direction>(['request', 'response'])(
  'silence in the %s keeps nobody from sending it again',
  async direction => {
    const w = await world()
    await callThrough(w, ANNOUNCED, keyOf(0))
    const most = w.proxy.passages.find(isHandOver)!.bytes[direction]
    for (let offset = 1; offset < most; offset += 97) {
      const key = keyOf(offset)
      const asked = await post(w.url, callTool(1, 'any', { key }), ANNOUNCED)
      await asked.ended
      const link = streamUrl(asked, w.url)
      const headers = { ...ANNOUNCED, 'x-key': key, 'x-cut': `silence ${direction} ${offset}` }
      const silent = post(link.replace(w.url, w.proxied), [yes(`${key} a`)], headers)
      silent.catch(() => {})
      await w.proxy.nthCut(w.proxy.cuts.length + 1)
      const again = await post(link, [yes(`${key} a`)], ANNOUNCED)
      expect(await again.ended).toBe('end')
      expect(again.messages().map(({ id, params }) => id ?? params.data)).toEqual([
        `${key} note`,
        `${key} b`
      ])
      const last = await post(link, [yes(`${key} b`)], ANNOUNCED)
      await last.ended
      expect(last.messages()).toMatchObject([{ id: 1, result: ['Ada', 'Ada'] }])
      const answers = w.endpoint.answers.filter(({ message }) => String(message.id).startsWith(key))
      expect(answers).toHaveLength(2)
    }
  }
)
