// Ends without a response of that name which are no failure: the client knows, or has its answer.

import { describe, expect, it } from '@jest/globals'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { callTool, del, get, headersFor, notification, post } from '../../helpers/mcp.js'
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
