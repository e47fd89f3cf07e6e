// The example of two deploys and a crash as its reader runs it, and its check: without the secret of
// the process before, the client notices.

import { describe, expect, it } from '@jest/globals'
import { runExample } from './run-example.js'

describe('the restart example', () => {
  it('is not noticed by its client, and ends by itself', async () => {
    const { code, stdout, stderr } = await runExample('restart/index.js')
    expect(stderr).toBe('')
    expect(stdout).toMatch(/^ {2}under load: \d\d+ calls of 5 other clients, lost: 0$/m)
    expect(stdout).toMatch(/^✔ one client, one session, four processes/m)
    expect(code).toBe(0)
  })

  it('fails where a process has another secret', async () => {
    const preload = `
      if (process.send !== undefined) process.env.SESSION_SECRET += process.pid`
    const { code, stdout } = await runExample('restart/index.js', {
      env: { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(preload)}` }
    })
    expect(stdout).toMatch(/^✘ the client has noticed: /m)
    expect(code).toBe(1)
  })
})
