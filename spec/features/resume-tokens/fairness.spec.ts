// When one owner takes all that there is: tokens and results of others stay, and others still get
// tokens.

import { describe, expect, it } from '@jest/globals'
import type { Json } from '../../helpers/open-stream.js'
import { answerJson, ask, report, serveTokens, TEXT, tokenOf } from './setup.js'

const MAX = 9

async function world(options: Parameters<typeof serveTokens>[0] = {}) {
  const served = await serveTokens({ maxStreams: MAX, ...options })
  const { url, endpoint } = served
  let calls = 0
  /** The answer to a call that is to run on. */
  const begin = async (auth: string | undefined): Promise<Json> => {
    calls++
    return ask(url, report(1, { resumeToken: null, 'express-mcp-streams/wait': 0 }), { auth })
  }
  const ended = async (auth: string | undefined, value: unknown = TEXT): Promise<string> => {
    const token = tokenOf(await begin(auth))
    answerJson(await endpoint.calls.nth(calls), value)
    return token
  }
  const collect = (auth: string | undefined, resumeToken: string): Promise<Json> =>
    ask(url, report(2, { resumeToken }), { auth })
  return { ...served, begin, ended, collect }
}

describe('one owner', () => {
  it.each([
    ['another', 'a'],
    ['nobody in particular', undefined]
  ])('keeps its results, however many calls %s makes', async (_name, flooder) => {
    const { ended, collect } = await world()
    const token = await ended('b')
    await collect('b', token)
    const first = await ended(flooder)
    await collect(flooder, first)
    for (let n = 0; n < 2 * MAX; n++) await collect(flooder, await ended(flooder))
    expect(await collect('b', token)).toMatchObject({ result: TEXT })
    expect(await collect(flooder, first)).toMatchObject({
      error: { data: { reason: 'token-invalid' } }
    })
  })

  it('keeps its results, however large those of another are', async () => {
    const { ended, collect } = await world({ maxBytes: 40_000, maxStreamBytes: 5000 })
    const token = await ended('b')
    await collect('b', token)
    const big = { content: [{ type: 'text', text: 'x'.repeat(2000) }] }
    for (let n = 0; n < MAX - 2; n++) await collect('a', await ended('a', big))
    expect(await collect('b', token)).toMatchObject({ result: TEXT })
  })

  it('gets tokens while as many calls of another run as may', async () => {
    const { begin, endpoint, streams, url } = await world()
    for (let n = 0; n < MAX - 1; n++) expect(tokenOf(await begin('a'))).toBeDefined()
    const beyond = ask(url, report(1, { resumeToken: null, 'express-mcp-streams/wait': 0 }), {
      auth: 'a'
    })
    answerJson(await endpoint.calls.nth(MAX), TEXT)
    expect(await beyond).toMatchObject({ result: TEXT })
    expect(streams.stats()).toMatchObject({ calls: MAX - 1, refusals: 1 })
    const theirs = await ask(url, report(1, { resumeToken: null, 'express-mcp-streams/wait': 0 }), {
      auth: 'b'
    })
    expect(tokenOf(theirs)).toBeDefined()
  })
})
