// The report example as its reader runs it, and its check: what is lost or runs twice must fail the
// run.

import { describe, expect, it } from '@jest/globals'
import { type Run, runExample, type RunOptions } from './run-example.js'

/**
 * The proxy allows 3.5 s, so that an answer which takes 1.4 comes in time on a busy machine, too.
 */
const run = (options: RunOptions = {}): Promise<Run> =>
  runExample('report/index.js', { args: ['--seconds', '21'], ...options })

/**
 * A module that comes between the client and the network: `change` sees each `init` of a tool call
 * with tokens.
 */
const between = (change: string) => `
  {
    const { fetch } = globalThis
    globalThis.fetch = async (url, init) => {
      const isCall = typeof init?.body === 'string' && new Headers(init.headers).get('prefer')?.includes('respond-async')
      if (isCall) await (${change})(url, init, fetch)
      return fetch(url, init)
    }
  }`

const WITHOUT = /^✘ without: no report: .*The server took too long$/m

describe('the report example', () => {
  it.concurrent(
    'gets its report through a proxy that allows a sixth of its time, and ends by itself',
    async () => {
      const { code, stdout, stderr } = await run()
      expect(stderr).toBe('')
      const [, requests, longest] =
        /^✔ with resume tokens: (\d+) requests, (\d\.\d) s at the most; the tool ran once; all pages are there$/m.exec(
          stdout
        )!
      expect(Number(requests)).toBeGreaterThanOrEqual(9)
      expect(Number(longest)).toBeLessThan(10)
      expect(stdout.match(/^ {2}POST tools\/call/gm)).toHaveLength(Number(requests))
      expect(stdout.match(/^ {4}(\w+): as expected$/gm)).toEqual(
        ['Income', 'Costs', 'Staff', 'Outlook'].map(title => `    ${title}: as expected`)
      )
      expect(stdout).toMatch(WITHOUT)
      expect(code).toBe(0)
    }
  )

  it.concurrent('fails where the tool runs twice, or a page is lost', async () => {
    const [twice, lost] = await Promise.all([
      run({
        preload: between(
          `(url, init, fetch) => !init.body.includes('"resumeToken"') && void fetch(url, init).catch(() => {})`
        )
      }),
      run({
        // Takes the next token of an answer that its client never sees.
        preload: between(`async (url, init, fetch) => {
          const answer = await (await fetch(url, init)).json()
          const token = answer.result?._meta?.nextResumeToken
          if (token && answer.result.content.length > 0) init.body = init.body.replace(/"resumeToken":"[^"]*"/, JSON.stringify({ resumeToken: token }).slice(1, -1))
        }`)
      })
    ])
    expect([twice, lost].map(({ code }) => code)).toEqual([1, 1])
    expect(twice.stdout).toMatch(/^✘ with resume tokens: the tool ran [2-4] times$/m)
    expect(lost.stdout).toMatch(/^✘ with resume tokens: /m)
  })

  it.concurrent('fails where a token is not the one that was given', async () => {
    const preload = between(
      `(_, init) => (init.body = init.body.replace(/("resumeToken":")[^"]/, '$1!'))`
    )
    const { code, stdout } = await run({ preload })
    expect(stdout).toMatch(/^✘ with resume tokens: no report: .*The resume token is not valid$/m)
    expect(code).toBe(1)
  })
})
