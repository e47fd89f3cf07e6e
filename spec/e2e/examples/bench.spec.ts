// The command line of the bench: it says what it measures and how long that takes, and refuses what
// it does not understand. Nothing is measured here.

import { expect, it } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const bench = (...args: string[]) =>
  spawnSync(process.execPath, ['spec/bench/index.js', ...args], { cwd: root, encoding: 'utf8' })

it('explains itself: sections with their times, and a legend', () => {
  const { status, stdout } = bench('--help')
  expect(status).toBe(0)
  expect(stdout.match(/^ {2}[a-j] {2}.* \d+ (s|min)$/gm)).toHaveLength(10)
  expect(stdout).toMatch(/"ok": met\. "~": .* "short": missed\./s)
})

it.each([['--nope'], ['z'], ['--rounds', '0'], ['--rounds', 'x']])('refuses %s', (...args) => {
  const { status, stdout, stderr } = bench(...args)
  expect([status, stdout]).toEqual([2, ''])
  expect(stderr).toContain('Usage:')
})
