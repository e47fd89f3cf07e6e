// The example of a slow JSON answer as its reader runs it, and its check: what runs twice must fail
// the run.

import { describe, expect, it } from '@jest/globals'
import { type Run, runExample, type RunOptions } from './run-example.js'

/** The proxy bears 4 s of silence, so that a busy machine breaks it in time, too. */
const run = (options: RunOptions = {}): Promise<Run> =>
  runExample('slow-json/index.js', { args: ['--seconds', '16'], ...options })

describe('the slow JSON example', () => {
  it.concurrent(
    'arrives through a proxy that cuts what is silent, and ends by itself',
    async () => {
      const { code, stdout, stderr } = await run()
      expect(stderr).toBe('')
      expect(stdout).toMatch(/ s {2}with {5}POST tools\/call {2}200 text\/event-stream$/m)
      expect(stdout).not.toMatch(/ s {2}with {5}.*cut off/)
      expect(stdout).toMatch(/ s {2}without {2}POST tools\/call {2}cut off: /m)
      expect(stdout).toMatch(
        /^✔ with the middleware: "All is well" after \d+\.\d s; the tool ran once$/m
      )
      expect(stdout).toMatch(/^✘ without: no summary: /m)
      expect(code).toBe(0)
    }
  )

  it.concurrent('fails where the tool runs twice', async () => {
    const preload = `
      const { fetch } = globalThis
      globalThis.fetch = async (url, init) => {
        if (init?.body?.includes('"tools/call"')) void fetch(url, init).catch(() => {})
        return fetch(url, init)
      }`
    const { code, stdout } = await run({ preload })
    expect(stdout).toMatch(/^✘ with the middleware: the tool ran 2 times$/m)
    expect(code).toBe(1)
  })
})
