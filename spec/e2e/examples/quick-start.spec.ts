// The quick start as a newcomer runs it, and its check: a client that loses or doubles something
// must fail the run.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { planCuts } from '../../../examples/quick-start/cut-proxy.js'
import { type Run, runExample, type RunOptions } from './run-example.js'

const run = (options?: RunOptions): Promise<Run> => runExample('quick-start/index.js', options)

/**
 * A module that comes between a client of the chosen act and the network; `fetch` is what it had.
 */
const between = (act: 'one' | 'two', replacement: string) => `
  {
    const { fetch } = globalThis
    const replacement = ${replacement}
    globalThis.fetch = (url, init) => {
      const isActTwo = new Headers(init?.headers).get('mcp-protocol-version') === '2026-07-28'
      return isActTwo === ${act === 'two'} ? replacement(url, init) : fetch(url, init)
    }
  }`

/** Changes what the client receives: `change` is an expression over one SSE `block`. */
const tamper = (change: string) => `async (...args) => {
  const response = await fetch(...args)
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response
  let rest = ''
  const blocks = new TransformStream({
    transform(text, controller) {
      const whole = (rest + text).split('\\n\\n')
      rest = whole.pop()
      for (const block of whole) controller.enqueue((${change}))
    }
  })
  const body = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(blocks)
  return new Response(body.pipeThrough(new TextEncoderStream()), response)
}`

/**
 * Sends each tool call twice, as an HTTP client that retries a POST would, and as it would be
 * without a key.
 */
const callTwice = `(url, init) => {
  if (init?.body?.includes?.('"tools/call"')) {
    const headers = new Headers(init.headers)
    headers.delete('idempotency-key')
    const again = { ...init, headers, body: init.body.replace(/"id":\\d+/, '"id":"again"') }
    void fetch(url, again).then(response => response.body?.cancel()).catch(() => {})
  }
  return fetch(url, init)
}`

/** Does not announce the client: a server at 2026-07-28 then leaves its responses alone. */
const unannounced = `(url, init) => {
  const headers = new Headers(init.headers)
  headers.delete('prefer')
  return fetch(url, { ...init, headers })
}`

/** The final lines: with and without, of each act. */
const verdicts = (stdout: string) => stdout.match(/^[✔✘] .*$/gm)

const survived = (name: string, cuts: number) =>
  `✔ with ${name}: ${cuts} cuts; all 40 steps once and in order; the tool ran once; result intact`

const LOST: unknown = expect.stringMatching(
  /^✘ without: lost \d+ of 40 steps; no result: .*Request timed out$/
)

const count = (text: string, pattern: RegExp) => text.match(pattern)?.length ?? 0

describe('quick start', () => {
  it('brings calls through every cut that loses them otherwise, and ends by itself', async () => {
    const { code, stdout, stderr } = await run()

    expect(stderr).toBe('')
    expect(verdicts(stdout)).toEqual([
      survived('mcpStreams', 7),
      LOST,
      survived('resumableFetch', 3),
      LOST
    ])
    expect(count(stdout, /^✂ FIN after \d+ bytes/gm)).toBe(3)
    expect(count(stdout, /^✂ RST after \d+ bytes/gm)).toBe(2)
    expect(count(stdout, /^✂ silence after \d+ bytes/gm)).toBe(2)
    expect(count(stdout, /^↻ resumed after event \d+$/gm)).toBeGreaterThanOrEqual(7)
    expect(count(stdout, /^↻ (error|end|idle): resumes after event \d+$/gm)).toBeGreaterThanOrEqual(
      3
    )
    expect(stdout).toMatch(/^↻ idle: resumes after event \d+$/m)
    expect(code).toBe(0)
  })

  it('cuts at bytes that follow from the seed, none before the client has its first event', () => {
    expect(planCuts(12, 3)).toEqual(planCuts(12, 3))
    expect(planCuts(12, 4)).not.toEqual(planCuts(12, 3))
    for (const seed of [0, 1, 2 ** 32 - 1]) {
      expect(Math.min(...planCuts(12, seed).map(({ after }) => after))).toBeGreaterThanOrEqual(
        1_400
      )
    }
  })

  describe('run again, in other ways', () => {
    let often: Run
    let sabotaged: Run[]

    beforeAll(async () => {
      const step20 = 'block.includes(\'"progress":20,\')'
      const lose = tamper(`${step20} ? '' : block + '\\n\\n'`)
      const double = tamper(`(block + '\\n\\n').repeat(${step20} ? 2 : 1)`)
      const spoil = tamper(`block.replace('"accepts"', '"excepts"') + '\\n\\n'`)
      ;[often, ...sabotaged] = await Promise.all([
        run({ args: ['--cuts', '12', '--seed', '3'] }),
        run({ preload: between('one', lose) }),
        run({ preload: between('two', unannounced) }),
        run({ preload: between('one', spoil) + between('two', double) }),
        run({ preload: between('one', callTwice) + between('two', callTwice) })
      ])
    })

    it('cuts as often as asked', () => {
      const { code, stdout } = often

      expect(verdicts(stdout)).toEqual([
        survived('mcpStreams', 12),
        LOST,
        survived('resumableFetch', 3),
        LOST
      ])
      expect(count(stdout, /^✂ /gm)).toBe(12)
      expect(code).toBe(0)
    })

    it('fails where something is lost or doubled, in either act', () => {
      expect(sabotaged.map(({ code }) => code)).toEqual([1, 1, 1, 1])
      expect(sabotaged.map(({ stdout }) => stdout.match(/^[✔✘] with .*$/gm))).toEqual([
        ['✘ with mcpStreams: lost 1 (#20) of 40 steps', survived('resumableFetch', 3)],
        [
          survived('mcpStreams', 7),
          expect.stringMatching(
            /^✘ with resumableFetch: lost \d+ of 40 steps; no result: Request timed out$/
          )
        ],
        [
          '✘ with mcpStreams: the result is spoilt',
          '✘ with resumableFetch: got 1 (#20) steps twice'
        ],
        [
          '✘ with mcpStreams: the tool ran 2 times',
          // More often where its client was impatient enough to send the call again: this one has
          // no key.
          expect.stringMatching(/^✘ with resumableFetch: the tool ran [2-9] times$/)
        ]
      ])
    })
  })
})
