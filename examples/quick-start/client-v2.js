// The official client 2, unmodified, at revision 2026-07-28: it never resumes. Its `fetch` does, if
// you give it one.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { resumableFetch } from 'express-mcp-streams/client'

export async function callTool(url, { bare, onprogress, onReconnect, timeout }) {
  // The one line. Such a short `idleTimeout` is for a tool that reports all the time: the default
  // is 45 s.
  const fetch = bare ? undefined : resumableFetch({ idleTimeout: 500, onReconnect })

  const versionNegotiation = { mode: { pin: '2026-07-28' } }
  const client = new Client({ name: 'quick-start', version: '1.0.0' }, { versionNegotiation })
  try {
    await client.connect(new StreamableHTTPClientTransport(url, { fetch }), { timeout })
    return await client.callTool(
      { name: 'reindex' },
      { onprogress, timeout, resetTimeoutOnProgress: true }
    )
  } finally {
    await client.close()
  }
}
