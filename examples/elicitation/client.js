// The official client, unmodified, with `resumableFetch`: it answers questions as it always did,
// and never learns how they travel.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { resumableFetch } from 'express-mcp-streams/client'

/**
 * Calls the tool; `answer({ message, requestedSchema })` is the human. `fetch` and `onReconnect`
 * are there to watch the wire.
 */
export async function callTool(url, { answer, fetch, onReconnect }) {
  const client = new Client(
    { name: 'terminal', version: '1.0.0' },
    { capabilities: { elicitation: {} } }
  )
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => answer(params))
  try {
    // The one line.
    await client.connect(
      new StreamableHTTPClientTransport(url, { fetch: resumableFetch({ fetch, onReconnect }) })
    )
    const { content, isError } = await client.callTool({ name: 'book' }, undefined, {
      timeout: 1_200_000
    })
    if (isError) throw new Error(content[0].text)
    return content[0].text
  } finally {
    await client.close()
  }
}
