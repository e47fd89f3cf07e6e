// What a client does with files: lists them, and brings one to the disk.

import { writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { saveResource } from 'express-mcp-streams/client/node'
import { z } from 'zod'

/** Connects to the MCP server at `url`, runs `work`, and disconnects. */
export async function connected(url, { limit }, work) {
  // What a client may be sent, it declares. `saveResource` says it again with each request.
  const capabilities = { resourceStreaming: limit === undefined ? {} : { maxStreamSize: limit } }
  const client = new Client({ name: 'files', version: '1.0.0' }, { capabilities })
  const transport = new StreamableHTTPClientTransport(new URL(url))
  await client.connect(transport)
  try {
    return await work(client, transport)
  } finally {
    await transport.terminateSession()
    await client.close()
  }
}

// The SDK's own schema drops what it does not know, and `streamable` with it.
const ListResult = z.looseObject({ resources: z.array(z.looseObject({ uri: z.string() })) })

export async function list(url) {
  return connected(
    url,
    {},
    async client => (await client.request({ method: 'resources/list' }, ListResult)).resources
  )
}

/**
 * Brings a resource into a folder, and returns `{ path, size, how }`. By `resources/stream`; what
 * the server does not stream, by
 * `resources/read`.
 */
export async function download(url, uri, { folder, limit, onProgress, onReconnect, ...options }) {
  // Ours, not the server's: what a server suggests as a name is for people to see.
  const path = join(folder, basename(decodeURIComponent(uri.split('/').at(-1))) || 'resource')
  return connected(url, { limit }, async (client, transport) => {
    try {
      const more = { maxStreamSize: limit, onProgress, onReconnect, ...options }
      const { size } = await saveResource(transport, uri, path, more)
      return { path, size, how: 'streamed' }
    } catch (error) {
      if (error.code !== 'not-streamable') throw error
    }
    const { contents } = await client.readResource({ uri })
    const [{ text, blob }] = contents
    const bytes = blob === undefined ? Buffer.from(text) : Buffer.from(blob, 'base64')
    if (bytes.length > limit)
      throw new Error(`${uri} has ${bytes.length} bytes, more than ${limit}`)
    await writeFile(path, bytes)
    return { path, size: bytes.length, how: 'read' }
  })
}
