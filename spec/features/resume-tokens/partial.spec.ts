// Results in pages: each answer in the meantime carries a part of the whole.

import { describe, expect, it } from '@jest/globals'
import { currentStream } from '../../../lib/index.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { serve } from '../../helpers/serve.js'
import { answerJson, answerOf, ask, report, TEXT, tokenOf } from './setup.js'
import { gate } from '../../helpers/gate.js'
import { headersFor, post } from '../../helpers/mcp.js'

const page = (n: number) => ({ content: [{ type: 'text', text: `page ${n}` }] })

/** An endpoint that runs `script` with `currentStream()` in reach. */
async function servePages(script: (call: RawCall) => unknown, options = {}) {
  const endpoint = rawEndpoint(script, { stateless: true })
  const served = await serve(endpoint, { resumeTokens: { after: 5000 }, ...options })
  return { ...served, endpoint }
}

describe('currentStream().partial', () => {
  it('gives parts to a client that uses tokens, in order, before the result', async () => {
    const returned: boolean[] = []
    const { url, endpoint } = await servePages(async call => {
      for (const n of [1, 2, 3]) {
        returned.push(currentStream()!.partial(page(n)))
        if (n === 1) await new Promise(setImmediate)
      }
      answerJson(call, page(4))
    })
    const answers = [await ask(url, report(1, { resumeToken: null }))]
    for (const id of [2, 3, 4])
      answers.push(await ask(url, report(id, { resumeToken: tokenOf(answers.at(-1)) })))
    expect(answers.map(({ result }) => result.content[0].text)).toEqual([
      'page 1',
      'page 2',
      'page 3',
      'page 4'
    ])
    expect(answers[3].result).toEqual(page(4))
    expect(returned).toEqual([true, true, true])
    expect(endpoint.calls).toHaveLength(1)
  })

  it('gives a part again until the next token has been used', async () => {
    const { url } = await servePages(call => {
      currentStream()!.partial({ ...page(1), structuredContent: { n: 1 }, _meta: { of: 2 } })
      answerJson(call, page(2))
    })
    const token = tokenOf(
      await ask(url, report(1, { resumeToken: null, 'express-mcp-streams/wait': 0 }))
    )
    const answers = await Promise.all(
      [2, 3].map(id => ask(url, report(id, { resumeToken: token })))
    )
    const first = {
      ...page(1),
      structuredContent: { n: 1 },
      _meta: { of: 2, nextResumeToken: expect.any(String) }
    }
    // The first answer may have carried it already; then both get what follows.
    expect(answers[0].result).toEqual(answers[1].result)
    expect([first, page(2)]).toContainEqual(answers[0].result)
  })

  it('answers a waiting request at once', async () => {
    const ready = gate()
    const { url } = await servePages(async call => {
      currentStream()!.partial(page(1))
      const stream = currentStream()!
      await ready.opened
      stream.partial(page(2))
      await call.closed
    })
    const first = await ask(url, report(1, { resumeToken: null }))
    expect(first.result.content).toEqual(page(1).content)
    const second = ask(url, report(2, { resumeToken: tokenOf(first) }))
    ready.open()
    expect((await second).result.content).toEqual(page(2).content)
  })

  it('returns false where nobody collects parts', async () => {
    const returned: (boolean | undefined)[] = []
    const { url } = await servePages(call => {
      returned.push(currentStream()!.partial(page(1)))
      call.result(TEXT)
    })
    expect(await ask(url, report(1))).toMatchObject({ result: TEXT })
    expect(returned).toEqual([false])
  })

  it('returns false when the call is over', async () => {
    const ended = gate<boolean>()
    const { url } = await servePages(call => {
      const stream = currentStream()!
      answerJson(call, TEXT)
      call.res.once('close', () => setImmediate(() => ended.open(stream.partial(page(1)))))
    })
    expect(await ask(url, report(1, { resumeToken: null }))).toMatchObject({ result: TEXT })
    expect(await ended.opened).toBe(false)
  })

  it.each([
    ['a string', 'page'],
    ['nothing', undefined],
    ['a list', [page(1)]],
    ['null', null],
    ['what calls itself a string in JSON', { toJSON: () => 'page' }],
    ['what JSON leaves out', { toJSON: () => undefined }]
  ])('throws for %s, with tokens and without', async (_name, value) => {
    const errors: unknown[] = []
    const { url } = await servePages(call => {
      try {
        currentStream()!.partial(value as object)
      } catch (error) {
        errors.push(error)
      }
      call.result(TEXT)
    })
    await ask(url, report(1, { resumeToken: null }))
    await ask(url, report(1))
    expect(errors).toEqual([expect.any(TypeError), expect.any(TypeError)])
  })

  it('fails the call where there is no room, after the parts that are kept', async () => {
    const returned: boolean[] = []
    const { url, endpoint } = await servePages(
      async call => {
        const stream = currentStream()!
        // The first one is on its way at once.
        for (let n = 1; n <= 4; n++) returned.push(stream.partial(page(n)))
        expect(stream.state).toBe('failed')
        expect(stream.signal.aborted).toBe(true)
        await call.closed
      },
      { maxStreamBytes: 120 }
    )
    let answer = await ask(url, report(1, { resumeToken: null }))
    const texts: string[] = []
    while (answer.result) {
      texts.push(answer.result.content[0].text)
      answer = await ask(url, report(2, { resumeToken: tokenOf(answer) }))
    }
    expect(texts).toEqual(returned.flatMap((ok, i) => (ok ? `page ${i + 1}` : [])))
    expect(returned).toContain(false)
    expect(answer.error).toMatchObject({ code: -31000, data: { reason: 'overflow' } })
    expect(endpoint.calls).toHaveLength(1)
  })
})

describe('currentStream() of a call with tokens', () => {
  it('tells how the call is doing, and ends a connection with a token', async () => {
    const { url, endpoint, streams } = await servePages(async call => {
      const stream = currentStream()!
      expect(streams.current()).toBe(stream)
      expect(stream).toMatchObject({ state: 'live', id: expect.stringMatching(/^[\w-]{21}$/) })
      stream.disconnect({ retry: 5 })
      expect(() => stream.disconnect({ retry: -1 })).toThrow(TypeError)
      await new Promise(resolve => setTimeout(resolve, 20))
      answerJson(call, { ...TEXT, _meta: { id: stream.id, isAborted: stream.signal.aborted } })
    })
    const response = await post(
      url,
      report(1, { resumeToken: null }),
      headersFor({ version: '2025-11-25' })
    )
    const first = await answerOf(response)
    const last = await ask(url, report(2, { resumeToken: tokenOf(first) }))
    expect(last.result).toMatchObject({ ...TEXT, _meta: { isAborted: false } })
    expect(last.result._meta.id).not.toBe(tokenOf(first))
    expect(endpoint.calls).toHaveLength(1)
  })
})
