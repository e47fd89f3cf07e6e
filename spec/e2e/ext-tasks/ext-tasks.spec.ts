// The official client of tasks, `@modelcontextprotocol/ext-tasks`, in both of its generations, over
// endpoints that know no tasks.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { execFile, execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { installed } from '../../helpers/installed.js'

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const folder = installed('ext-tasks')

const asked = (scope: string) => ({
  kind: 'task',
  status: 'completed',
  text: 'Hello, Ann!',
  asked: [{ message: 'Who are you?', scope }]
})
const EVERYWHERE = {
  fast: { kind: 'immediate', status: 'completed', text: 'slow but sure' },
  slow: { kind: 'task', status: 'completed', text: 'slow but sure' },
  asked: asked('task'),
  cancelled: { kind: 'task', status: 'cancelled' },
  handedOff: { kind: 'task', status: 'completed', text: 'slow but sure' }
}
const REVISIONS = {
  '2025-11-25': {
    ...EVERYWHERE,
    // At this revision, a tool that has failed makes a task that has.
    failed: { kind: 'task', status: 'failed', text: 'it has failed' },
    askedOnRequest: asked('task'),
    // The session has two calls: nobody can say which of them asks.
    askedBesideAnother: asked('request')
  },
  '2026-07-28': {
    ...EVERYWHERE,
    failed: { kind: 'task', status: 'completed', isError: true, text: 'it has failed' }
  }
}

describe('ext-tasks', () => {
  const each = folder === undefined ? it.skip : it
  beforeAll(() => {
    execFileSync(process.execPath, [fileOf('../../../.config/ensure-dist.js')])
  })

  each('at both revisions', async () => {
    const run = promisify(execFile)
    const outcomes = Object.keys(REVISIONS).map(async revision => {
      const { stdout } = await run(process.execPath, [fileOf('host.js'), folder ?? '', revision])
      return [revision, JSON.parse(stdout)] as const
    })
    expect(Object.fromEntries(await Promise.all(outcomes))).toEqual(REVISIONS)
  })
})
