// A process that exits when it has answered.

import { beforeAll, expect, it } from '@jest/globals'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { closeLater } from '../../helpers/listen.js'
import { callTool, headersFor, post } from '../../helpers/mcp.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))

beforeAll(() => {
  expect(spawnSync(process.execPath, ['.config/ensure-dist.js'], { cwd: root }).status).toBe(0)
})
const EXITING = `
  import { createServer } from 'node:http'
  import { mcpStreams } from ${JSON.stringify(new URL('../../../dist/index.js', import.meta.url).href)}
  const streams = mcpStreams()
  const server = createServer((req, res) => streams(req, res, () => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    setTimeout(() => {
      res.end('data: {"jsonrpc":"2.0","id":1,"result":{}}\\n\\n')
      process.exit()
    }, 50)
  }))
  server.listen(0, '127.0.0.1', () => console.log(server.address().port))
`

it('has answered', async () => {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', EXITING], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  closeLater(() => child.kill())
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const url = `http://127.0.0.1:${String(line).trim()}/mcp`
  const response = await post(url, callTool(1, 'any'), headersFor({ version: '2025-11-25' }))
  await response.ended
  expect(response.messages()).toEqual([{ jsonrpc: '2.0', id: 1, result: {} }])
})
