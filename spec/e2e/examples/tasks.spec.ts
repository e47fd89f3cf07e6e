// The example of a task as its reader runs it.

import { describe, expect, it } from '@jest/globals'
import { type Run, runExample, type RunOptions } from './run-example.js'

const run = (options: RunOptions = {}): Promise<Run> =>
  runExample('tasks/index.js', { args: ['--seconds', '12'], ...options })

describe('the tasks example', () => {
  it.concurrent('gets its report over a wire that is cut, and asks once', async () => {
    const { code, stdout, stderr } = await run()
    expect(stderr).toBe('')
    expect(stdout).toMatch(/^ {2}\[\.{10}\] {2}working$/m)
    expect(stdout).toMatch(
      /^ {2}\[#{5}\.{5}\] {2}input_required {2}Reading the archives \(5\/10\)$/m
    )
    expect(stdout.match(/May I read the secret ones\?/g)).toHaveLength(1)
    expect(stdout).toMatch(
      /^✔ as a task: "All read\. Yes, of course\."; \d+ connections were cut$/m
    )
    expect(stdout).toMatch(/^✘ as a plain call: no report: /m)
    expect(code).toBe(0)
  })

  it.concurrent('fails where the job is begun twice', async () => {
    const preload = `
      const { fetch } = globalThis
      globalThis.fetch = async (url, init) => {
        const headers = new Headers(init?.headers)
        headers.delete('idempotency-key')
        if (init?.body?.includes('"tools/call"')) void fetch(url, { ...init, headers }).catch(() => {})
        return fetch(url, init)
      }`
    const { code, stdout } = await run({ preload })
    expect(stdout).toMatch(/^✘ as a task: .*the job was begun [2-9] times/m)
    expect(code).toBe(1)
  })
})
