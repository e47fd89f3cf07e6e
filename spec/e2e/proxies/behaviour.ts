// What holds through any reverse proxy: calls, silences, cuts, hand-offs, downloads and owners.

import { describe, expect, it } from '@jest/globals'
import { setTimeout as sleep } from 'node:timers/promises'
import { resumableFetch, streamResource } from '../../../lib/client/index.js'
import { resources } from '../../../lib/resources/index.js'
import { ownerCookie } from '../../../lib/features/cookie/index.js'
import { bytesOf, drain, sha256 } from '../../features/client/resource-server.js'
import { keyIn, SPEC_OPTIONS, V1, V2, V2_MODERN, type Setup } from '../../features/client/setups.js'
import { connectV1, connectV2, type ConnectedV1, type ConnectedV2 } from '../../helpers/clients.js'
import type { Cut, CutBy, CutProxy, ProxiedRequest } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { happenings, until } from '../../helpers/happenings.js'
import { callTool, del, get, headersFor, initializeSession, post } from '../../helpers/mcp.js'
import { streamId, streamUrl } from '../../helpers/serve.js'
import { LIMIT, PREFIX, type Change, type StartProxy } from './configurations.js'
import type { Daemon } from './daemon.js'
import { call, resumptions, through, type Through } from './through.js'

/** A silence that the proxy does not bear. */
const SILENCE = LIMIT * 1000 + 500
const BYTES = bytesOf(300_000)
const AT_ONCE = 8
const WIRES = ['front', 'back']

interface Who {
  setup: Setup
  /** The one underneath where it is a stock client. */
  fetch: () => ReturnType<typeof resumableFetch>
}
const ours = (): ReturnType<typeof resumableFetch> =>
  resumableFetch({ ...SPEC_OPTIONS, idleTimeout: 5000 })
const stock = (): ReturnType<typeof resumableFetch> => (url, init) => fetch(url, init)

const CLIENTS: [string, Who][] = [
  ['the official client v1 with resumableFetch', { setup: V1, fetch: ours }],
  ['the official client v2 with resumableFetch, at 2026-07-28', { setup: V2_MODERN, fetch: ours }],
  ['the stock client v1', { setup: V1, fetch: stock }],
  ['the stock client v2', { setup: V2, fetch: stock }]
]

/**
 * Cuts the first request of each call, as its key says: the wire, what is counted, how far, and by
 * what.
 */
const cutsFrom = (wire: string) => {
  const seen = new Set<string>()
  return ({ message }: { message: Parameters<typeof keyIn>[0] }): Cut | undefined => {
    const key = keyIn(message)
    if (key === undefined || !key.startsWith(wire) || seen.has(key)) return undefined
    seen.add(key)
    const [, unit, digits, by] = key.split(' ') as [
      string,
      'request' | 'response' | 'events',
      string,
      CutBy
    ]
    return unit === 'events'
      ? { by, afterEvents: Number(digits) }
      : { by, direction: unit, afterBytes: Number(digits) }
  }
}

const keysOf = (wires: string[], units: string[], numbers: number[], kinds: CutBy[]): string[] =>
  wires.flatMap(wire =>
    units.flatMap(unit =>
      numbers.map((number, i) => `${wire} ${unit} ${number} ${kinds[i % kinds.length]!}`)
    )
  )

async function callAll(
  connected: ConnectedV1 | ConnectedV2,
  { endpoint }: Through,
  keys: string[]
): Promise<void> {
  const left = keys.values()
  const worker = async (): Promise<void> => {
    for (const key of left) {
      const { steps, result } = call(connected, key, { n: 3, size: 40 })
      expect({ key, text: await result, steps: [...steps] }).toEqual({
        key,
        text: 'counted to 3',
        steps: [1, 2, 3]
      })
      expect({ key, executions: endpoint.log.executions(key) }).toEqual({ key, executions: 1 })
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

/** The stream that a request has come back for. */
const streamOf = ({ url, headers }: ProxiedRequest): string =>
  /stream=([\w-]{21})/.exec(url)?.[1] ?? headers['last-event-id']!.slice(0, 21)

const callsCut = ({ cuts }: CutProxy): unknown[] =>
  cuts.filter(({ message }) => keyIn(message) !== undefined)

/**
 * @param logOf what the proxy has logged so far
 * @param countable the wires that events are seen on: not on one where they are compressed
 */
export function describeThrough(
  startProxy: StartProxy,
  logOf: (daemon: Daemon) => string,
  changes: readonly Change[] = [],
  countable = WIRES
): void {
  const open = async ({ setup, fetch }: Who, options = {}) => {
    const all = await through(startProxy, setup.endpoint(), options, changes)
    const connected = await setup.connect(all.url, fetch())
    // The listen channel, where there is one, is open by then.
    if (setup.hasSession) await all.back.nthRequest(3)
    return { ...all, connected }
  }

  it.each(CLIENTS)('each event comes when it is sent: %s', async (_name, who) => {
    const { connected, endpoint, front } = await open(who, { keepAlive: 400 })
    const { steps, result } = call(connected, 'slow', { n: 20, paced: true })
    const times: number[] = []
    for (let step = 1; step <= 20; step++) {
      const sent = performance.now()
      endpoint.log.release('slow')
      expect(await steps.nth(step)).toBe(step)
      times.push(performance.now() - sent)
    }
    endpoint.log.release('slow')
    expect(await result).toBe('counted to 20')
    expect(resumptions(front)).toEqual([])
    // What lets events wait for the next one makes each of them wait for 200 ms; a busy machine, most
    // of them at times.
    expect(Math.min(...times)).toBeLessThan(150)
  })

  describe('silences, waited for at once', () => {
    it.concurrent('comments bridge those that are longer than the limit', async () => {
      await Promise.all(
        CLIENTS.map(async ([, who]) => {
          const { connected, endpoint, front } = await open(who, { keepAlive: 400 })
          // One is silent before its first event, the other behind it.
          const first = call(connected, 'slow', { n: 1, paced: true })
          const second = call(connected, 'slower', { n: 1, paced: true })
          endpoint.log.release('slower')
          await second.steps.nth(1)
          await sleep(SILENCE)
          endpoint.log.release('slow')
          await first.steps.nth(1)
          for (const key of ['slow', 'slower']) endpoint.log.release(key)
          for (const { result } of [first, second]) expect(await result).toBe('counted to 1')
          expect(resumptions(front)).toEqual([])
        })
      )
    })

    it.concurrent('without comments they are cut, and calls resumed', async () => {
      await Promise.all(
        CLIENTS.map(async ([, who]) => {
          const { connected, endpoint, front } = await open(who, { keepAlive: null })
          // The call is one stream, the listen channel another.
          const areResumed = (since: number): boolean =>
            new Set(resumptions(front).slice(since).map(streamOf)).size >
            Number(who.setup.hasSession)
          const { steps, result } = call(connected, 'slow', { n: 1, paced: true })
          await until(() => areResumed(0))
          endpoint.log.release('slow')
          await steps.nth(1)
          const before = resumptions(front).length
          await until(() => areResumed(before))
          endpoint.log.release('slow')
          expect(await result).toBe('counted to 1')
          expect([...steps]).toEqual([1])
        })
      )
    })
  })

  // What decompresses may drop what came right before a cut, the primer as well: then only the link
  // is left.
  const whoResume = countable === WIRES ? CLIENTS : CLIENTS.slice(0, 2)
  it.each(whoResume)(
    'an event is lost by no cut, before the proxy or behind it: %s',
    async (_name, who) => {
      const all = await open(who)
      all.front.plan = cutsFrom('front')
      all.back.plan = cutsFrom('back')
      // The first is the primer; a stock client goes on from there. A reset may take away what was
      // not read yet, the primer as well.
      const kinds: CutBy[] = who.fetch === stock ? ['fin'] : ['fin', 'rst']
      const keys = kinds.flatMap(by => keysOf(countable, ['events'], [1, 2, 3], [by]))
      await callAll(all.connected, all, keys)
      expect(callsCut(all.front).length + callsCut(all.back).length).toBe(keys.length)
      expect(resumptions(all.front).length).toBeGreaterThanOrEqual(keys.length)
    }
  )

  it.each(CLIENTS)('nor by a reset between two events: %s', async (_name, who) => {
    const { connected, endpoint, front, back } = await open(who)
    const { steps, result } = call(connected, 'slow', { n: 3, paced: true })
    for (const [step, wire] of [front, back, front].entries()) {
      endpoint.log.release('slow')
      expect(await steps.nth(step + 1)).toBe(step + 1)
      const before = resumptions(front).length
      wire.cutNow('rst')
      await until(() => resumptions(front).length > before)
    }
    endpoint.log.release('slow')
    expect(await result).toBe('counted to 3')
    expect([...steps]).toEqual([1, 2, 3])
  })

  it.each(CLIENTS.slice(0, 2))('nor by one at any byte: %s', async (_name, { setup }) => {
    const fetch = () => resumableFetch({ ...SPEC_OPTIONS, idleTimeout: 1000 })
    const all = await open({ setup, fetch })
    all.front.plan = cutsFrom('front')
    all.back.plan = cutsFrom('back')
    const numbers = Array.from({ length: 16 }, (_, i) => i * 71)
    await callAll(
      all.connected,
      all,
      keysOf(WIRES, ['request', 'response'], numbers, ['fin', 'rst', 'silence'])
    )
    expect(callsCut(all.front).length).toBeGreaterThan(16)
    expect(callsCut(all.back).length).toBeGreaterThan(16)
    expect(all.connected.errors).toEqual([])
  })

  it.each([
    ['v1', connectV1],
    ['v2', connectV2]
  ] as const)(
    'a question is handed off to resumableFetch, and the wire is free meanwhile: %s',
    async (sdk, connect) => {
      const all = await through(startProxy, sdkV1Stateful(), {}, changes)
      const waiting = happenings('waiting')
      const connected = await connect(all.url, {
        ...(sdk === 'v2' && { era: '2025-11-25' }),
        fetch: ours(),
        onElicit: async ({ message }: { message: string }) => {
          await waiting.nth(1)
          return { action: 'accept', content: { answer: `${message} Ada` } }
        }
      })
      await all.front.nthRequest(3)
      // The answers go out on a wire that breaks, first behind the proxy and then in front of it.
      const breakAnswer = (wire: CutProxy, nth: number): void => {
        let count = 0
        wire.plan = ({ method, url }) =>
          method === 'POST' && url.includes('stream=') && ++count === nth
            ? { by: 'rst', afterBytes: 40 }
            : undefined
      }
      breakAnswer(all.back, 1)
      breakAnswer(all.front, 2)
      const { result } = call(connected, 'asks', {}, 'elicit')
      expect(JSON.parse(await result)).toEqual({
        action: 'accept',
        content: { answer: 'What is your name? Ada' }
      })
      expect(all.endpoint.log.executions('asks')).toBe(1)
      expect(
        all.front.passages.filter(({ method, status }) => method === 'GET' && status === 204)
      ).not.toEqual([])
      const answers = all.front.passages.filter(
        ({ method, url }) => method === 'POST' && url.includes('stream=')
      )
      expect(answers.length).toBe(3)
    }
  )

  it('a stock client answers a question at the endpoint', async () => {
    const { url } = await through(startProxy, V1.endpoint(), {}, changes)
    const connected = await connectV1(url, {
      onElicit: () => ({ action: 'accept', content: { answer: 'Ada' } })
    })
    const { result } = call(connected, 'asks', {}, 'elicit')
    expect(JSON.parse(await result)).toMatchObject({ content: { answer: 'Ada' } })
  })

  it.each(['direct', 'download'] as const)(
    'a resource comes whole, over wires that break: %s',
    async mode => {
      const range = (start: number, end: number): Buffer => BYTES.subarray(start, end + 1)
      const resource = { range, size: BYTES.length, etag: 'v1', mimeType: 'application/pdf' }
      const all = await through(
        startProxy,
        V1.endpoint(),
        url => ({ resources: resources({ open: () => resource, mode, publicUrl: url }) }),
        changes
      )
      const { transport } = await connectV1(all.url, { fetch: ours() })
      await all.front.nthRequest(3)
      for (const wire of [all.front, all.back]) {
        const left: Cut[] = [
          { by: 'rst', afterBytes: 100_000 },
          { by: 'fin', afterBytes: 30_000 }
        ]
        wire.plan = ({ method, url, message }) =>
          message?.method === 'resources/stream' || (method === 'GET' && url.includes('?'))
            ? left.shift()
            : undefined
      }
      const found = await streamResource(transport, 'files:///report.pdf', {
        minTimeout: 1,
        idleTimeout: 5000
      })
      expect(found).toMatchObject({ size: BYTES.length, mimeType: 'application/pdf' })
      const { bytes, error } = await drain(found)
      expect(error).toBeUndefined()
      expect([bytes.length, sha256(bytes)]).toEqual([BYTES.length, sha256(BYTES)])
      const ranges = all.back.passages.filter(
        ({ headers, status }) => headers['range'] !== undefined && status === 206
      )
      expect(ranges.length).toBeGreaterThan(0)
    }
  )

  it('the link leads back below the prefix, for its owner only', async () => {
    const { url, endpoint, back } = await through(startProxy, sdkV1Stateful(), {}, changes)
    const auth = headersFor({ auth: 'ada' })
    const { headers } = await initializeSession(url, '2025-11-25', auth)
    const message = callTool(7, 'count', { key: 'k', n: 2, paced: true }, 'token')
    const response = await post(url, message, headers)
    const target = streamUrl(response, url)
    expect(new URL(target).pathname).toBe(`${PREFIX}/mcp`)

    const stranger = await get(target, headersFor({ auth: 'eve' }))
    const madeUp = await get(target.replace(streamId(response), 'x'.repeat(21)), auth)
    for (const refused of [stranger, madeUp]) await refused.ended
    expect([stranger.status, stranger.text]).toEqual([404, madeUp.text])
    const page = await get(target, { ...auth, origin: 'https://elsewhere.example' })
    expect(page.status).toBe(403)

    endpoint.log.release('k')
    expect(await response.nextMessage()).toMatchObject({ params: { progress: 1 } })
    response.destroy()
    const again = await get(target, auth)
    expect(again.status).toBe(200)
    expect(await again.nextMessage()).toMatchObject({ params: { progress: 1 } })
    endpoint.log.release('k')
    expect(await again.nextMessage()).toMatchObject({ params: { progress: 2 } })
    expect(back.passages.at(-1)!.url).toBe(`/mcp?stream=${streamId(response)}`)

    expect((await del(target, auth)).status).toBeLessThan(300)
    await until(() => endpoint.log.aborted('k') === 1)
  })

  it('the cookie of an owner is good below the prefix', async () => {
    const { url, back } = await through(
      startProxy,
      sdkV1Stateful(),
      { cookie: ownerCookie({ secret: 'a secret of ours' }) },
      changes
    )
    const { headers } = await initializeSession(url, '2025-11-25', headersFor({ auth: 'ada' }))
    const response = await post(url, callTool(7, 'count', { n: 1 }, 'token'), headers)
    await response.ended
    const [cookie, ...attributes] = response.headers['set-cookie']![0]!.split('; ') as [
      string,
      ...string[]
    ]
    expect(attributes).toContain(`Path=${PREFIX}/mcp`)
    const target = streamUrl(response, url)
    const [withIt, without] = [await get(target, { cookie }), await get(target)]
    expect([withIt.status, without.status]).toEqual([200, 404])
    expect(back.passages.at(-1)!.headers).toMatchObject({ 'x-forwarded-proto': 'http' })
  })

  it('the log has no key to a stream', async () => {
    const { url, daemon } = await through(startProxy, sdkV1Stateful(), {}, changes)
    const { headers } = await initializeSession(url, '2025-11-25')
    const response = await post(url, callTool(7, 'count', { n: 1 }, 'token'), headers)
    await response.ended
    const again = await get(streamUrl(response, url), headers)
    await again.ended
    await until(() => logOf(daemon).split('\n').length > 4)
    expect(logOf(daemon)).toMatch(/ GET \/.*mcp 200$/m)
    expect(logOf(daemon)).not.toContain(streamId(response))
  })
}
