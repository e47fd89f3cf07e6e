// The official client, unmodified.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

/** Returns the text of the summary. `timeout`: milliseconds that the client waits for it. */
export async function getSummary(url, { fetch, timeout }) {
  const client = new Client({ name: 'slow-json', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(url, { fetch }))
  try {
    const { content } = await client.callTool({ name: 'summarise' }, undefined, { timeout })
    return content[0].text
  } finally {
    await client.close()
  }
}
