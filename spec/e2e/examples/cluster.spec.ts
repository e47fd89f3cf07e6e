// The example of several instances as its reader runs it.

import { describe, expect, it } from '@jest/globals'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { isWithoutRedis, startRedis } from '../../helpers/backplane/redis-server.js'
import { closeLater } from '../../helpers/close-all.js'
import { until } from '../../helpers/happenings.js'
import { root, type Run, runExample, type RunOptions } from './run-example.js'

const run = (options?: RunOptions): Promise<Run> => runExample('cluster/index.js', options)

if (isWithoutRedis)
  describe.skip('without redis-server: the cluster example', () =>
    it('is not run', () => undefined))
else
  describe('the cluster example', () => {
    it('loses no call to a deploy, and only that of the instance that is killed', async () => {
      const { code, stdout, stderr } = await run()
      expect(stderr).toBe('')
      const replaced = /^ {2}[A-C] is replaced by [D-F], and has left with exit code 0$/gm
      expect(stdout.match(replaced)).toHaveLength(3)
      expect(stdout).toMatch(/^ {2}\d\d+ calls of six clients, lost: 0$/m)
      expect(stdout.match(/✂/g)).toHaveLength(10)
      expect(stdout.match(/Shall I go on\?/g)).toHaveLength(1)
      expect(stdout).toMatch(/^ {2}↓ {2}[D-F] is told to leave/m)
      expect(stdout).toMatch(/^ {2}✝ {2}[D-F] is killed/m)
      expect(stdout).toMatch(/^ {2}[D-F] has left, with exit code 0$/m)
      expect(stdout).toMatch(/^ {2}The second call, \d+ ms after the kill: .* is gone$/m)
      expect(stdout).toMatch(
        /^✔ lost: nothing of the first call; the second one, with an explicit/m
      )
      expect(code).toBe(0)
    })

    it('answers what is on its way to an instance that is told to leave', async () => {
      const redis = await startRedis()
      const program = 'examples/cluster/instance.js'
      const child = spawn(process.execPath, [program, 'A', redis.url], {
        cwd: root,
        stdio: ['ignore', 'pipe', 'inherit'],
        env: { ...process.env, BACKPLANE_SECRET: 'a secret of the specs' }
      })
      closeLater(() => child.kill('SIGKILL'))
      const exited = once(child, 'exit')
      const [port] = (await once(child.stdout, 'data')) as [Buffer]
      const begun = request({
        port: Number(port),
        path: '/mcp',
        method: 'POST',
        agent: false,
        headers: {
          Accept: 'application/json, text/event-stream',
          'Content-Type': 'application/json',
          Expect: '100-continue'
        }
      })
      begun.flushHeaders()
      // The application has it, and waits for its body.
      await once(begun, 'continue')
      child.kill('SIGTERM')
      await until(() => isClosed(Number(port)))
      begun.end('{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
      const [{ statusCode }] = (await once(begun, 'response')) as [IncomingMessage]
      // It has no session.
      expect(statusCode).toBe(400)
      expect((await exited)[0]).toBe(0)
    })

    it.each(['SIGTERM', 'SIGINT'] as const)(
      'leaves no process behind when it is ended by %s',
      async signal => {
        const child = spawn(process.execPath, ['examples/cluster/index.js'], {
          cwd: root,
          stdio: ['ignore', 'pipe', 'inherit']
        })
        const exited = once(child, 'exit')
        // They are there once the story begins.
        await once(child.stdout, 'data')
        const children = childrenOf(child.pid!)
        expect(children.length).toBe(4)
        child.kill(signal)
        expect((await exited)[0]).toBe(signal === 'SIGTERM' ? 143 : 130)
        await until(() => !children.some(isRunning))
      }
    )
  })

/** Whether nobody listens there any more. */
function isClosed(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  return new Promise(resolve => {
    const known = (closed: boolean): void => {
      socket.destroy()
      resolve(closed)
    }
    socket.once('connect', () => known(false)).once('error', () => known(true))
  })
}

function childrenOf(pid: number): number[] {
  const all = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
  const rows = all.trim().split('\n')
  return rows
    .map(row => row.trim().split(/\s+/).map(Number))
    .flatMap(([id, parent]) => (parent === pid ? [id!] : []))
}

/** What has ended may wait for whoever adopted it. */
function isRunning(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', `${pid}`], { encoding: 'utf8' })
  return stdout.trim() !== '' && !stdout.startsWith('Z')
}

describe('the cluster example, where it cannot be run', () => {
  it('says what is missing', async () => {
    const { code, stdout, stderr } = await run({ env: { REDIS_SERVER: 'no-redis-of-this-name' } })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^There is no redis-server here/)
  })
})
