// The official client, unmodified: it resumes by itself where the server lets it.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

export async function callTool(url, { onprogress, timeout }) {
  const client = new Client({ name: 'quick-start', version: '1.0.0' })
  try {
    await client.connect(new StreamableHTTPClientTransport(url), { timeout })
    const options = { onprogress, timeout, resetTimeoutOnProgress: true }
    return await client.callTool({ name: 'reindex' }, undefined, options)
  } finally {
    await client.close()
  }
}
