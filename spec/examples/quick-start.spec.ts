// The quick start as a newcomer runs it, and its check: a client that loses or doubles something must fail the run.

import { describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { planCuts } from '../../examples/quick-start/cut-proxy.js'

const root = fileURLToPath(new URL('../..', import.meta.url))

interface Run {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
  milliseconds: number
}

/** Runs the example; `preload` is a module that is imported first. */
function run({ args = [], preload }: { args?: string[]; preload?: string } = {}): Promise<Run> {
  const imports = preload === undefined ? [] : ['--import', `data:text/javascript,${encodeURIComponent(preload)}`]
  const started = performance.now()
  return new Promise(resolve => {
    const child = execFile(
      process.execPath,
      [...imports, 'examples/quick-start/index.js', ...args],
      { cwd: root, timeout: 28_000, env: { ...process.env, NODE_OPTIONS: '' } },
      (_, stdout, stderr) => {
        const milliseconds = performance.now() - started
        resolve({ code: child.exitCode, signal: child.signalCode, stdout, stderr, milliseconds })
      }
    )
  })
}

/** A module that changes what the client receives: `change` is an expression over one SSE `block`. */
const tamper = (change: string) => `
  const { fetch } = globalThis
  globalThis.fetch = async (...args) => {
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

/** A module that sends each tool call twice, as an HTTP client that retries a POST would. */
const callTwice = `
  const { fetch } = globalThis
  globalThis.fetch = (url, init) => {
    if (init?.body?.includes?.('"tools/call"')) {
      const again = { ...init, body: init.body.replace(/"id":\\d+/, '"id":"again"') }
      void fetch(url, again).then(response => response.body?.cancel()).catch(() => {})
    }
    return fetch(url, init)
  }`

const count = (text: string, pattern: RegExp) => text.match(pattern)?.length ?? 0

describe('quick start', () => {
  it.concurrent('brings one call through every cut, where the bare server loses it, and ends by itself', async () => {
    const { code, stdout, stderr, milliseconds } = await run()

    expect(stderr).toBe('')
    expect(stdout).toContain(
      '✔ with mcpStreams: 7 cuts; all 40 steps once and in order; the tool ran once; result intact\n'
    )
    expect(stdout).toMatch(/^✘ without: lost \d+ of 40 steps; no result: .*Request timed out$/m)
    expect(count(stdout, /^✂ FIN after \d+ bytes/gm)).toBe(3)
    expect(count(stdout, /^✂ RST after \d+ bytes/gm)).toBe(2)
    expect(count(stdout, /^✂ silence after \d+ bytes/gm)).toBe(2)
    expect(count(stdout, /^↻ resumed after event \d+$/gm)).toBeGreaterThanOrEqual(7)
    expect(code).toBe(0)
    expect(milliseconds).toBeLessThan(20_000)
  })

  it.concurrent('cuts as often as asked', async () => {
    const { code, stdout } = await run({ args: ['--cuts', '12', '--seed', '3'] })

    expect(stdout).toContain('✔ with mcpStreams: 12 cuts;')
    expect(count(stdout, /^✂ /gm)).toBe(12)
    expect(code).toBe(0)
  })

  it('cuts at bytes that follow from the seed, none before the client has its first event', () => {
    expect(planCuts(12, 3)).toEqual(planCuts(12, 3))
    expect(planCuts(12, 4)).not.toEqual(planCuts(12, 3))
    for (const seed of [0, 1, 2 ** 32 - 1]) {
      expect(Math.min(...planCuts(12, seed).map(({ after }) => after))).toBeGreaterThanOrEqual(1_400)
    }
  })

  it.concurrent('fails the run where something is lost or doubled', async () => {
    const step20 = 'block.includes(\'"progress":20,\')'
    const runs = await Promise.all([
      run({ preload: tamper(`${step20} ? '' : block + '\\n\\n'`) }),
      run({ preload: tamper(`(block + '\\n\\n').repeat(${step20} ? 2 : 1)`) }),
      run({ preload: tamper(`block.replace('"accepts"', '"excepts"') + '\\n\\n'`) }),
      run({ preload: callTwice })
    ])

    expect(runs.map(({ code }) => code)).toEqual([1, 1, 1, 1])
    expect(runs.map(({ stdout }) => /^✘ with mcpStreams: (.*)$/m.exec(stdout)?.[1])).toEqual([
      'lost 1 (#20) of 40 steps',
      'got 1 (#20) steps twice',
      'the result is spoilt',
      'the tool ran 2 times'
    ])
  })

  it('explains itself, and refuses what it does not understand', async () => {
    const help = await run({ args: ['--help'] })
    expect(help).toMatchObject({ code: 0, stderr: '' })
    expect(help.stdout).toContain('--cuts')

    const wrong = [
      ['--nope'],
      ['extra'],
      ['--cuts'],
      ['--cuts', '0'],
      ['--cuts', '13'],
      ['--cuts', '1e1'],
      ['--seed=-1']
    ]
    const runs = await Promise.all(wrong.map(args => run({ args })))
    for (const { code, stdout, stderr } of runs) {
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toMatch(/^(--|Option|Unknown|Unexpected)/)
      expect(stderr).toContain('Usage:')
    }
  })
})
