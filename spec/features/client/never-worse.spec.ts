// Behind a gateway that drops headers of ours, in whatever combination, and cuts the response or
// not, `resumableFetch` gets what a plain fetch gets, and runs no tool more often.

import { describe, expect, it } from '@jest/globals'
import { resumableFetch, type FetchLike } from '../../../lib/client/index.js'
import { fc, times } from '../../helpers/property.js'
import { serve } from '../../helpers/serve.js'
import { callCount, SETUPS, type Setup, SPEC_OPTIONS, V2_MODERN } from './setups.js'

interface Gateway {
  /** Headers of responses that do not get through. */
  readonly response: readonly string[]
  /** Headers of requests that do not get through. */
  readonly request: readonly string[]
  /** Bytes of the body after which the call's first response is cut; `undefined`: none is. */
  readonly cutAfter: number | undefined
}

/** Behind the first event id: before it, nobody can resume who has no link. */
const CUTS = { min: 150, max: 600 }
const GATEWAYS: fc.Arbitrary<Gateway> = fc.record({
  response: fc.subarray(['link', 'preference-applied', 'x-accel-buffering', 'cache-control']),
  request: fc.subarray(['prefer', 'idempotency-key']),
  cutAfter: fc.option(fc.integer(CUTS), { nil: undefined })
})

/**
 * A fetch through the gateway. It cuts the first response to a call of the tool `count`. `keys`
 * gets the key of each POST.
 */
function through(
  { response: dropped, request, cutAfter }: Gateway,
  keys: string[] = []
): FetchLike {
  let mayCut = cutAfter !== undefined
  return async (input, init = {}) => {
    const isCall = String(init.body).includes('"count"')
    const headers = new Headers(init.headers)
    keys.push(headers.get('idempotency-key') ?? String(keys.length))
    for (const name of request) headers.delete(name)
    const answer = await fetch(input, { ...init, headers })
    const given = new Headers(answer.headers)
    for (const name of dropped) given.delete(name)
    const isCut = mayCut && isCall
    if (isCut) mayCut = false
    const body = isCut ? answer.body!.pipeThrough(cutter(cutAfter!)) : answer.body
    const { status, url } = answer
    return Object.defineProperty(new Response(body, { status, headers: given }), 'url', {
      value: url
    })
  }
}

function cutter(left: number): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream({
    transform(chunk, controller) {
      if (left > 0) controller.enqueue(chunk.subarray(0, left))
      left -= chunk.length
      if (left <= 0) controller.error(new TypeError('terminated'))
    }
  })
}

describe.each(SETUPS.map(setup => [setup.name, setup] as [string, Setup]))('%s', (_name, setup) => {
  it.each([
    ['that keeps its connections', {}],
    ['that disconnects at will', { disconnectAfter: 20 }]
  ])('has no worse calls with resumableFetch to a server %s', async (_server, options) => {
    const endpoint = setup.endpoint()
    const { url } = await serve(endpoint, { retry: 5, resumeInterval: { min: 0 }, ...options })
    let count = 0
    const outcome = async (fetch: FetchLike) => {
      const key = String(++count)
      const connected = await setup.connect(url, fetch as ReturnType<typeof resumableFetch>)
      const called = callCount(connected, key, { n: 3, delayMs: 15 }, { timeout: 5000 })
      const text = await called.then(
        result => result.text,
        () => undefined
      )
      await connected.close()
      return { text, runs: endpoint.log.calls.filter(call => call.key === key).length }
    }
    const property = fc.asyncProperty(GATEWAYS, async gateway => {
      // Without event ids, a call that is cut is lost to every client.
      fc.pre(setup !== V2_MODERN || gateway.cutAfter === undefined || gateway.request.length === 0)
      const keys: string[] = []
      const fetch = through(gateway, keys)
      const lifted = await outcome(resumableFetch({ ...SPEC_OPTIONS, fetch }))
      expect(lifted.runs).toBe(1)
      // What has come whole is the answer, and what was cut behind its head is resumed or lost.
      expect(new Set(keys).size).toBe(keys.length)
      if (lifted.text !== 'counted to 3') expect(lifted).toEqual(await outcome(through(gateway)))
    })
    await fc.assert(property, {
      numRuns: times(10),
      examples: [['link'], ['link', 'preference-applied']].flatMap(response =>
        [undefined, 300].map(cutAfter => [{ response, request: [], cutAfter }] as [Gateway])
      )
    })
  })
})
