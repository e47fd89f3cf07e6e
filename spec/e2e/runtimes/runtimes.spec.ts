// The middleware on other runtimes than Node: what it promises, once each.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { resumableFetch } from '../../../lib/client/index.js'
import { connectV1 } from '../../helpers/clients.js'
import { closeLater } from '../../helpers/close-all.js'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { installed } from '../../helpers/installed.js'
import { callTool, headersFor, initializeSession, post } from '../../helpers/mcp.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const folder = installed('runtimes')
const RUNTIMES = {
  Bun: { program: 'bun/bin/bun.exe', args: [] },
  Deno: { program: 'deno/deno', args: ['run', '-A', '--node-modules-dir=manual'] }
}
const COUNTED = [1, 2, 3, 4, 5, 6, 7, 8]

beforeAll(() => {
  execFileSync(process.execPath, ['.config/ensure-dist.js'], { cwd: root })
})

describe.each(Object.entries(RUNTIMES))('%s', (_name, { program, args }) => {
  const path = join(folder ?? '', 'node_modules', program)
  const each = existsSync(path) ? it : it.skip

  each('is a server whose calls outlive their connections', async () => {
    const child = spawn(path, [...args, 'spec/e2e/runtimes/server.js'], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit']
    })
    closeLater(() => child.kill())
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    const port = Number(String(line))
    const url = `http://127.0.0.1:${port}/mcp`
    const proxy = await createCutProxy({
      target: port,
      plan: ({ message }) =>
        message?.params?.name === 'count' ? { by: 'rst', afterEvents: 4 } : undefined
    })
    const { client } = await connectV1(`${proxy.url}/mcp`)
    const counted = async (closes: boolean) => {
      const progress: number[] = []
      const { content } = await client.callTool(
        { name: 'count', arguments: { closes } },
        undefined,
        {
          onprogress: step => progress.push(step.progress)
        }
      )
      return { progress, content }
    }
    const run = (n: number) => ({
      progress: COUNTED,
      content: [{ type: 'text', text: `run ${n}` }]
    })
    // Cut, and with the endpoint closing its stream as well.
    expect(await counted(false)).toEqual(run(1))
    expect(await counted(true)).toEqual(run(2))
    expect(proxy.cuts).toHaveLength(2)

    // The body is looked at: two requests under one key are one call.
    const { headers } = await initializeSession(url, '2025-11-25')
    const keyed = {
      ...headers,
      ...headersFor({ prefer: 'rel=stream' }),
      'idempotency-key': 'k'.repeat(20)
    }
    const first = await post(url, callTool(1, 'count', {}), keyed)
    const second = await post(url, callTool(1, 'count', {}), keyed)
    await second.ended
    expect(first.headers['preference-applied']).toBe('rel=stream')
    expect(second.messages().at(-1).result.content[0].text).toBe('run 3')

    // A question, whose answer goes to the endpoint by the hand-off.
    const asked: string[] = []
    const onElicit = ({ message }: { message: string }) => {
      asked.push(message)
      return { action: 'accept' as const, content: { name: 'Ann' } }
    }
    const other = await connectV1(url, { fetch: resumableFetch(), onElicit })
    const answer = await other.client.callTool({ name: 'ask' })
    expect(answer.content).toEqual([{ type: 'text', text: 'Hello, Ann!' }])
    expect(asked).toEqual(['Who?'])

    const slow = await post(url.replace('/mcp', '/slow'), callTool(1, 'any'), headers)
    await slow.ended
    expect(slow.headers['content-type']).toBe('text/event-stream')
    expect(slow.messages().at(-1).result.content[0].text).toBe('late')

    // A body that comes in pieces.
    const message = JSON.stringify(callTool(1, 'count', { pad: 'x'.repeat(80_000) }))
    const sent = request(url, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream'
      }
    })
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>
    sent.write(message.slice(0, 10))
    // By the time of another answer, the first piece is there.
    await (await fetch(url)).text()
    sent.end(message.slice(10))
    const [whole] = await answered
    expect(await text(whole)).toContain('run 4')
  })
})
