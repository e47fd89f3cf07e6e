// The small examples as their reader runs them: servers to begin with, a WebSocket, a page.

import { describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { WebSocket } from 'ws'
import { createServer } from '../../../examples/websocket/server.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, headersFor, initialize, initializeSession, post } from '../../helpers/mcp.js'
import { streamId } from '../../helpers/serve.js'
import { play, root } from './playground.js'
import { runExample } from './run-example.js'
import { itInBrowser, launch } from '../browser/chromium.js'

const env = { ...process.env, NODE_OPTIONS: '' }

describe.each(['stateful.js', 'stateless.js', 'v2.js', 'commonjs.cjs'])(
  'the quick start %s',
  file => {
    it('serves streams that can be resumed, and ends when it is told to', async () => {
      const served = await play([], { PORT: '0' }, `quick-start/${file}`)
      const { child } = served
      const url = served.url.replace('localhost', '127.0.0.1')
      const headers =
        file === 'stateful.js'
          ? (await initializeSession(url, '2025-11-25')).headers
          : headersFor({ version: '2025-11-25' })
      const response = await post(url, callTool(1, 'count'), headers)
      expect(streamId(response)).toMatch(/^[\w-]{21}$/)
      child.kill('SIGTERM') // the call is finished first
      await response.ended
      expect(response.text).toContain('Counted to three')
      if (child.exitCode === null) await new Promise(resolve => child.once('exit', resolve))
      expect(child.exitCode).toBe(0)
    })
  }
)

it.each(['stateful.js', 'stateless.js', 'v2.js', 'commonjs.cjs', '../playground/index.js'])(
  'the server %s says what is wrong with its port',
  async file => {
    const { port } = await listen((_, res) => void res.end())
    const run = (PORT: string) => runExample(`quick-start/${file}`, { env: { PORT } })
    const [taken, none] = await Promise.all([run(String(port)), run('abc')])
    expect(taken).toMatchObject({ code: 1, stdout: '' })
    expect(taken.stderr).toMatch(/^listen EADDRINUSE: address already in use \S+\n$/)
    expect(none).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^PORT .*abc'?\n$/)
    })
    expect(existsSync(`${root}/abc`)).toBe(false)
  }
)

it('the WebSocket example gets every step once, over a socket that breaks twice', async () => {
  const run = promisify(execFile)
  const { stdout } = await run(process.execPath, ['examples/websocket/index.js'], {
    cwd: root,
    timeout: 500_000,
    env
  })
  expect(stdout.match(/✂/g)).toHaveLength(2)
  expect(stdout.match(/↻ attempt 1 /g)).toHaveLength(2)
  expect(stdout).toMatch(/^✔ Counted to 10; steps: 10; the tool ran once$/m)
})

it('the WebSocket example goes on where somebody sends what is no JSON', async () => {
  const { sockets, close } = createServer()
  closeLater(close)
  await once(sockets, 'listening')
  const { port } = sockets.address() as AddressInfo
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, 'mcp')
  closeLater(() => socket.terminate())
  await once(socket, 'open')
  for (const text of ['x', '', '{"jsonrpc":', 'null', '5', '[]']) socket.send(text)
  socket.send(JSON.stringify(initialize('2025-11-25')))
  const [answer] = (await once(socket, 'message')) as [Buffer]
  expect(JSON.parse(String(answer))).toHaveProperty('result.serverInfo')
})

itInBrowser('the page of the browser example follows its call with EventSource', async () => {
  const { url } = await play([], {}, 'browser')
  const browser = await launch()
  closeLater(() => browser.close())
  const page = await browser.newPage()
  await page.goto(url)
  await page.click('button')
  const log = page.locator('#log li')
  await log.filter({ hasText: '✔' }).waitFor()
  const numbers = Array.from({ length: 10 }, (_, i) => `EventSource: ${i + 1}`)
  expect(await log.allInnerTexts()).toEqual([
    'POST: 200, its stream is kept',
    ...numbers,
    '✔ Counted to 10'
  ])
})
