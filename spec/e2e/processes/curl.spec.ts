// White space in front of a late JSON answer, as curl reads it, and what it pipes to.

import { expect, it } from '@jest/globals'
import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { promisify } from 'node:util'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { callTool, result } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'

const has = (program: string) => spawnSync(program, ['--version']).status === 0
const withCurl = has('curl') ? it : it.skip

withCurl('curl reads white space before a late JSON answer', async () => {
  const answer = { content: [{ type: 'text', text: 'late' }] }
  const endpoint = rawEndpoint(() => undefined, { stateless: true })
  const { url, server } = await serve(endpoint, { jsonKeepAlive: 10 })
  const headers = [
    'content-type: application/json',
    'accept: application/json',
    'mcp-protocol-version: 2025-11-25'
  ]
  const options = headers.map(header => `-H '${header}'`).join(' ')
  const reader = has('jq')
    ? 'jq .result'
    : `node -p 'JSON.stringify(JSON.parse(fs.readFileSync(0)).result)'`
  const body = JSON.stringify(callTool(7, 'any'))
  const connected = once(server, 'connection') as Promise<[Socket]>
  const run = promisify(execFile)('sh', [
    '-c',
    `curl -sS ${options} -d '${body}' ${url} | ${reader}`
  ])
  const [socket] = await connected
  const { res } = await endpoint.calls.nth(1)
  // The head, and white space twice.
  for (let writes = 0; writes < 3; writes++) {
    const written = socket.bytesWritten
    await until(() => socket.bytesWritten > written)
  }
  res.writeHead(200, { 'Content-Type': 'application/json' })
  res.end(JSON.stringify(result(7, answer)))
  expect(JSON.parse((await run).stdout)).toEqual(answer)
})
