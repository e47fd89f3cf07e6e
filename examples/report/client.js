// The official client, unmodified. `callResumable` repeats its request with each token until the
// report is there.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { callResumable } from 'express-mcp-streams/client'

/** Returns the pages of the report. `bare`: asks as it always did. */
export async function getReport(url, { bare, fetch, onPage }) {
  const client = new Client({ name: 'report', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(url, { fetch }))
  try {
    const request = { method: 'tools/call', params: { name: 'report' } }
    if (bare) return (await client.callTool(request.params)).content

    const pages = []
    const onPartial = ({ content }) => {
      pages.push(...content)
      onPage(content)
    }
    onPartial(await callResumable(client, request, { onPartial }))
    return pages
  } finally {
    await client.close()
  }
}
