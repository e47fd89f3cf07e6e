// What is kept of calls: counted, for a time, and no more than it takes to give their results.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { serve } from '../../helpers/serve.js'
import { until } from '../../helpers/happenings.js'
import { answerJson, ask, report, serveTokens, SOON, TEXT, tokenOf } from './setup.js'

describe('stats()', () => {
  it('count calls that run and results that are kept, in bytes, and those that had to make room', async () => {
    const { url, endpoint, streams } = await serveTokens({ maxBytes: 2000, maxStreamBytes: 2000 })
    const text = 'x'.repeat(1200)
    const first = await ask(url, report(1, { resumeToken: null }))
    expect(streams.stats()).toMatchObject({ calls: 1, bytes: 0, evictions: 0, live: 0 })
    answerJson(endpoint.calls[0]!, { content: [{ type: 'text', text }] })
    await ask(url, report(2, { resumeToken: tokenOf(first) }))
    expect(streams.stats()).toMatchObject({ calls: 1, evictions: 0 })
    expect(streams.stats().bytes).toBeGreaterThan(text.length)

    const second = await ask(url, report(3, { resumeToken: null }))
    expect(streams.stats()).toMatchObject({ calls: 2, evictions: 0 })
    answerJson(endpoint.calls[1]!, { content: [{ type: 'text', text }] })
    await ask(url, report(4, { resumeToken: tokenOf(second) }))
    expect(streams.stats()).toMatchObject({ calls: 1, evictions: 1 })
    expect(streams.stats().bytes).toBeLessThan(2000)
  })

  it('count nothing of a call that had its result at once', async () => {
    const { url, endpoint, streams } = await serveTokens({ resumeTokens: { after: 5000 } })
    const answer = ask(url, report(1, { resumeToken: null }))
    answerJson(await endpoint.calls.nth(1), TEXT)
    await answer
    expect(streams.stats()).toMatchObject({ calls: 0, bytes: 0 })
  })
})

describe('a result', () => {
  it('is kept without the requests that it came by', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    const requests: WeakRef<object>[] = []
    const see: RequestHandler = (req, _res, next) => {
      requests.push(new WeakRef(req))
      next()
    }
    const endpoint = rawEndpoint(() => undefined, { stateless: true })
    const { url, streams } = await serve(endpoint, { resumeTokens: { after: SOON } }, [see])
    const CALLS = 10
    for (let n = 0; n < CALLS; n++) {
      const first = await ask(url, report(1, { resumeToken: null, 'express-mcp-streams/wait': 0 }))
      answerJson(endpoint.calls.at(-1)!, TEXT)
      await ask(url, report(2, { resumeToken: tokenOf(first) }))
    }
    expect(streams.stats().calls).toBe(CALLS)
    expect(requests).toHaveLength(2 * CALLS)
    endpoint.calls.length = endpoint.requests.length = 0
    // The last ones may be in the hands of their sockets.
    await until(() => {
      collectGarbage()
      return requests.filter(request => request.deref() !== undefined).length < CALLS / 2
    })
    expect(streams.stats().calls).toBe(CALLS)
  })
})
