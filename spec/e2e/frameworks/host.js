// Calls the tool `count` through the MCP client of a framework, of two endpoints at once:
// node host.js <folder with the packages> <framework> <url> <other url>. Prints what has come back.
import { createRequire } from 'node:module'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

const [folder, framework, ...urls] = process.argv.slice(2)
const { resolve } = createRequire(`${folder}/any.js`)
const load = name => import(pathToFileURL(resolve(name)).href)
const args = { key: 'k', n: 5, delayMs: 200 }

const connect = {
  async '@langchain/mcp-adapters'(url) {
    const { MultiServerMCPClient } = await load(framework)
    const client = new MultiServerMCPClient({ mcpServers: { it: { transport: 'http', url } } })
    const tool = (await client.getTools()).find(({ name }) => name === 'count')
    return () => tool.invoke(args)
  },
  async '@openai/agents-core'(url) {
    const { MCPServerStreamableHttp } = await load(framework)
    const server = new MCPServerStreamableHttp({ name: 'it', url })
    await server.connect()
    return () => server.callTool('count', args)
  },
  async '@google/adk'(url) {
    const { MCPToolset } = await load(framework)
    const toolset = new MCPToolset({ type: 'StreamableHTTPConnectionParams', url })
    const tool = (await toolset.getTools()).find(({ name }) => name === 'count')
    return () => tool.runAsync({ args, toolContext: {} })
  }
}

const calls = await Promise.all(urls.map(connect[framework]))
const [first, second] = calls.map(call => call().catch(() => 'lost'))
const answer = JSON.stringify(await second)
// Some clients wait for a minute for what is lost.
const other = JSON.stringify(await Promise.race([first, delay(1000, 'lost')]))
process.stdout.write(`\n${JSON.stringify([other, answer])}`, () => process.exit())
