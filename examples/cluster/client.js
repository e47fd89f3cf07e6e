// The official client, unmodified, with `resumableFetch`: it knows of one server.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { resumableFetch } from 'express-mcp-streams/client'

/** `answer(question)` is the human. */
export async function openClient(url, { answer }) {
  const client = new Client(
    { name: 'cluster', version: '1.0.0' },
    { capabilities: { elicitation: {} } }
  )
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => ({
    action: 'accept',
    content: { answer: answer(params.message) }
  }))
  await client.connect(
    new StreamableHTTPClientTransport(url, { fetch: resumableFetch({ minTimeout: 100 }) })
  )
  return {
    /** Of the instance that has opened its session. */
    instance: client.getServerVersion().name,
    /** Resolves with a text; `step` hears of each step. */
    async count(step) {
      const onprogress = ({ progress }) => step?.(progress)
      const params = { name: 'count', arguments: {} }
      const { content } = await client.callTool(params, undefined, { onprogress })
      return content[0].text
    },
    async work() {
      const { content } = await client.callTool({ name: 'work', arguments: {} })
      return content[0].text
    },
    close: () => client.close()
  }
}
