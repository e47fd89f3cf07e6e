// Stock clients of 2026-07-28 past any limit of their wire: a result without input in it makes them
// come again.

import { describe, expect, it } from '@jest/globals'
import { connectV2 } from '../../helpers/clients.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { sdkV2Handler } from '../../helpers/endpoints/sdk-v2.js'
import { postModern, request, result } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import type { McpStreamsOptions } from '../../../lib/index.js'

const BOTH = 'application/json, text/event-stream'

async function slow(options: McpStreamsOptions = {}) {
  const endpoint = rawEndpoint(() => undefined)
  const served = await serve(endpoint, { disconnectAfter: 40, ...options })
  return { ...served, endpoint }
}

const answer = (
  { res, message }: RawCall,
  value: object = { content: [], resultType: 'complete' }
): void =>
  void res
    .writeHead(200, { 'Content-Type': 'application/json' })
    .end(JSON.stringify(result(message.id, value)))

type Params = { requestState?: unknown; inputResponses?: unknown }

const call = (id: number, name = 'slow', more: Params = {}) =>
  request(id, 'tools/call', { name, arguments: {}, ...more })

async function ask(
  url: string,
  message: ReturnType<typeof call>,
  headers: Record<string, string> = {}
): Promise<Json> {
  const response = await postModern(url, message, { accept: BOTH, 'mcp-name': 'slow', ...headers })
  await response.ended
  return JSON.parse(response.text)
}

const stateOf = ({ result: { resultType, requestState, ...rest } }: Json): string => {
  expect(resultType).toBe('input_required')
  expect(rest).toEqual({})
  return requestState
}

describe('a call that is not done in time', () => {
  it('is answered with a state, and given to who comes again with it, under its new id', async () => {
    const { url, endpoint } = await slow()
    const first = await ask(url, call(1))
    expect(first.id).toBe(1)
    const again = ask(url, call(2, 'slow', { requestState: stateOf(first) }))
    answer(await endpoint.calls.nth(1))
    expect(await again).toEqual(result(2, { content: [], resultType: 'complete' }))
    expect(endpoint.calls).toHaveLength(1)
    expect(endpoint.calls[0]!.message.params).not.toHaveProperty('requestState')
  })

  it('gives the same round again to who has lost its answer', async () => {
    const { url, endpoint } = await slow()
    const first = stateOf(await ask(url, call(1)))
    const second = stateOf(await ask(url, call(2, 'slow', { requestState: first })))
    expect(stateOf(await ask(url, call(3, 'slow', { requestState: first })))).toBe(second)
    answer(await endpoint.calls.nth(1))
    expect(await ask(url, call(4, 'slow', { requestState: second }))).toMatchObject({
      id: 4,
      result: { content: [] }
    })
    expect(endpoint.calls).toHaveLength(1)
  })

  it('is held open after nine rounds', async () => {
    const { url, endpoint } = await slow({ disconnectAfter: 5 })
    let state: string | undefined
    for (let round = 1; round <= 9; round++)
      state = stateOf(
        await ask(url, call(round, 'slow', state === undefined ? {} : { requestState: state }))
      )
    const last = ask(url, call(10, 'slow', { requestState: state }))
    setTimeout(() => answer(endpoint.calls[0]!), 60)
    expect(await last).toMatchObject({ id: 10, result: { content: [] } })
  })

  it("is held open where the endpoint's own rounds have used them up", async () => {
    const { url, endpoint } = await slow({ disconnectAfter: 50 })
    let state: string | undefined
    for (let round = 1; round <= 9; round++) {
      const asked = ask(url, call(round, 'slow', { requestState: state }))
      answer(await endpoint.calls.nth(round), { resultType: 'input_required', inputRequests: {} })
      state = (await asked).result.requestState
    }
    const last = ask(url, call(10, 'slow', { requestState: state }))
    const tenth = await endpoint.calls.nth(10)
    setTimeout(() => answer(tenth), 150)
    expect(await last).toMatchObject({ id: 10, result: { content: [] } })
  })

  it.each([
    [
      'forged',
      (): Params => ({ requestState: 'mcp-streams:call:AAAAAAAAAAAAAAAAAAAAA' }),
      'slow',
      'token-invalid'
    ],
    [
      'of another call',
      (state: string): Params => ({ requestState: state }),
      'other',
      'parameters-changed'
    ]
  ])('runs no tool for a state that is %s', async (_, more, name, reason) => {
    const { url, endpoint } = await slow()
    const state = stateOf(await ask(url, call(1)))
    expect(await ask(url, call(2, name, more(state)), { 'mcp-name': name })).toMatchObject({
      id: 2,
      error: { data: { reason } }
    })
    expect(endpoint.calls).toHaveLength(1)
  })

  it('runs no tool for a state of another method', async () => {
    const { url, endpoint } = await slow()
    const state = stateOf(await ask(url, call(1)))
    const prompt = request(2, 'prompts/get', { name: 'slow', arguments: {}, requestState: state })
    const other = await postModern(url, prompt, { accept: BOTH, 'mcp-name': 'slow' })
    await other.ended
    expect(JSON.parse(other.text)).toMatchObject({
      id: 2,
      error: { data: { reason: 'method-changed' } }
    })
    expect(endpoint.calls).toHaveLength(1)
  })

  it('runs no tool for a state that has expired', async () => {
    const { url, endpoint } = await slow({ resumeInterval: { max: 0.1 } })
    const state = stateOf(await ask(url, call(1)))
    // Nobody has come again: the call is abandoned.
    await (
      await endpoint.calls.nth(1)
    ).closed
    expect(await ask(url, call(3, 'slow', { requestState: state }))).toMatchObject({
      id: 3,
      error: { data: { reason: 'token-expired' } }
    })
    expect(endpoint.calls).toHaveLength(1)
  })

  it("runs no tool for somebody else's state", async () => {
    const { url, endpoint } = await slow()
    const state = stateOf(await ask(url, call(1), { authorization: 'Bearer a' }))
    const stranger = await ask(url, call(2, 'slow', { requestState: state }), {
      authorization: 'Bearer b'
    })
    expect(stranger).toMatchObject({ error: { data: { reason: 'token-invalid' } } })
    expect(endpoint.calls).toHaveLength(1)
  })

  it('leaves what comes in time, other methods, and clients without the option alone', async () => {
    const { url, endpoint } = await slow({ disconnectAfter: 60_000 })
    const quick = ask(url, call(1))
    answer(await endpoint.calls.nth(1))
    expect(await quick).toMatchObject({ id: 1, result: { content: [] } })
    const off = await slow({ disconnectAfter: null })
    const unknown = ask(
      off.url,
      call(2, 'slow', { requestState: 'mcp-streams:call:AAAAAAAAAAAAAAAAAAAAA' })
    )
    answer(await off.endpoint.calls.nth(1))
    expect(await unknown).toMatchObject({ result: { content: [] } })
  })

  it("keeps the endpoint's own rounds: its state travels inside ours", async () => {
    const { url, endpoint } = await slow({ disconnectAfter: 60_000 })
    const first = ask(url, call(1))
    const inputRequests = { name: { method: 'elicitation/create', params: {} } }
    answer(await endpoint.calls.nth(1), {
      resultType: 'input_required',
      inputRequests,
      requestState: 'own "state"'
    })
    const { requestState, ...asked } = (await first).result
    expect(asked).toEqual({ resultType: 'input_required', inputRequests })
    expect(requestState).not.toBe('own "state"')
    const inputResponses = { name: { action: 'accept', content: {} } }
    const second = ask(url, call(2, 'slow', { requestState, inputResponses }))
    const { message } = await endpoint.calls.nth(2)
    expect(message.params).toMatchObject({ requestState: 'own "state"', inputResponses })
    answer(endpoint.calls[1]!)
    expect(await second).toMatchObject({ id: 2, result: { content: [] } })
  })
})

const getsItsResult = async (url: string, ms: number): Promise<void> => {
  const { client, errors } = await connectV2(url)
  const done = await client.callTool({ name: 'slow', arguments: { ms } })
  expect(done.content).toEqual([{ type: 'text', text: 'slow but sure' }])
  expect(errors).toEqual([])
}

describe('the official client 2.x, unchanged', () => {
  it('gets the result of a tool that takes five times as long as any answer may', async () => {
    const endpoint = sdkV2Handler({ legacy: 'reject' })
    const { url } = await serve(endpoint, { disconnectAfter: 100 })
    await getsItsResult(url, 500)
    expect(endpoint.log.calls.filter(({ tool }) => tool === 'slow')).toHaveLength(1)
  })
})
