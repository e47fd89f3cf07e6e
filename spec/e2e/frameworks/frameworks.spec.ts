// MCP clients of frameworks, unchanged, on a wire that is cut in the middle of a call: without the
// middleware the call is lost.

import { describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { installed } from '../../helpers/installed.js'
import { listen } from '../../helpers/listen.js'
import { serve } from '../../helpers/serve.js'

const folder = installed('frameworks')
const host = fileURLToPath(new URL('host.js', import.meta.url))

const proxied = async (port: number) =>
  createCutProxy({
    target: port,
    plan: ({ message }) =>
      message?.method === 'tools/call' ? { by: 'rst', afterEvents: 3 } : undefined
  })

describe('a call whose wire is cut', () => {
  const each = folder === undefined ? it.skip : it

  each.each(['@langchain/mcp-adapters', '@openai/agents-core', '@google/adk'])(
    'of %s',
    async framework => {
      const [bare, endpoint] = [sdkV1Stateful(), sdkV1Stateful()]
      const { server } = await serve(endpoint, { retry: 100 })
      const ports = [(await listen(bare)).port, (server.address() as { port: number }).port]
      const proxies = await Promise.all(ports.map(proxied))
      const urls = proxies.map(({ url }) => `${url}/mcp`)
      const { stdout } = await promisify(execFile)(
        process.execPath,
        [host, folder ?? '', framework, ...urls],
        { timeout: 60_000 }
      )
      const outcomes = JSON.parse(stdout.split('\n').at(-1)!) as string[]
      expect(outcomes[0]).not.toContain('counted')
      expect(outcomes[1]).toContain('counted to 5')
      expect(proxies.map(({ cuts }) => cuts.length)).toEqual([1, 1])
      expect(endpoint.log.executions('k')).toBe(1)
    }
  )
})
