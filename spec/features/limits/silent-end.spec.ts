// Ends without a response of that name which are no failure: the client knows, or has its answer.

import { describe, expect, it } from '@jest/globals'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { callTool, del, get, headersFor, notification, post, result } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'

const HEADERS = headersFor({ session: 'mine', version: '2025-11-25' })

describe('a session that its client ends while a call runs', () => {
  async function ending(onDelete: (call: RawCall, running: RawCall) => void) {
    const errors: string[] = []
    const endpoint = rawEndpoint(call => {
      if (call.req.method !== 'DELETE')
        return void call.emit(notification('notifications/message', { data: 'one' }))
      onDelete(call, endpoint.requests[0]!)
    })
    const onError = (error: Error) => void errors.push((error as { code?: string }).code ?? '')
    const served = await serve(endpoint, { onError })
    const running = await post(served.url, callTool(1, 'any'), HEADERS)
    await running.nextMessage()
    const deleted = await del(served.url, HEADERS)
    expect(await running.ended).toBe('end')
    return { ...served, errors, running, deleted }
  }

  it('ends the call without a word, as the endpoint has', async () => {
    const { running, deleted, errors, streams, url } = await ending((call, { res }) => {
      res.end()
      call.res.writeHead(200).end()
    })
    expect(deleted.status).toBe(200)
    expect(running.messages()).toHaveLength(1)
    expect([errors, streams.stats().live]).toEqual([[], 0])
    expect((await get(streamUrl(running, url), HEADERS)).status).toBe(204)
  })

  it('is an error where the endpoint does not end the session: it had another reason', async () => {
    const { running, errors } = await ending((call, { res }) => {
      res.end()
      call.res.writeHead(405).end()
    })
    expect(running.messages().at(-1)).toMatchObject({
      id: 1,
      error: { data: { reason: 'no-response' } }
    })
    expect(errors).toEqual(['no-response'])
  })
})

describe('a response under an id that is not the client’s', () => {
  const answered = async (ids: (string | number)[], ...responses: (string | number)[]) => {
    const endpoint = rawEndpoint(call => {
      for (const id of responses) call.emit(result(id, {}))
      call.res.end()
    })
    const { url } = await serve(endpoint)
    const calls = ids.map(id => callTool(id, 'any'))
    const response = await post(
      url,
      calls.length === 1 ? calls[0]! : calls,
      headersFor({ version: '2025-03-26' })
    )
    await response.ended
    return response
      .messages()
      .map(({ id, error }) => (error === undefined ? id : [id, error.data.reason]))
  }

  it('counts: what stands between may have numbered the requests anew', async () => {
    expect(await answered(['wire-1'], 'gateway-1')).toEqual(['gateway-1'])
    expect(await answered([1, 2], 'a', 'b')).toEqual(['a', 'b'])
  })

  it('counts once: a request that nobody has answered gets its error', async () => {
    expect(await answered([1, 2], 'a')).toEqual(['a', [1, 'no-response'], [2, 'no-response']])
    expect(await answered([1, 2], 1, 1)).toEqual([1, 1, [2, 'no-response']])
  })
})
