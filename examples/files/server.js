// An MCP server over a folder: the official SDK answers `resources/list` and `resources/read`, the
// middleware `resources/stream`.
//
//   node examples/files/server.js <folder> [--mode direct|redirect|download] [--port 3000]

import { randomUUID } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import {
  ErrorCode,
  isInitializeRequest,
  ListResourcesRequestSchema,
  McpError,
  ReadResourceRequestSchema
} from '@modelcontextprotocol/sdk/types.js'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { fileResources, NOT_STREAMABLE, resources } from 'express-mcp-streams/resources'
import { createStorage, signer } from './storage.js'
import { isMain, listen } from './start.js'

/** What is smaller is for the model to read, and not worth a stream. */
const SMALL = 4096

/**
 * @param mode how bytes reach the client: `direct`, `redirect` (to the `storage`) or `download`
 * (from a URL below `publicUrl`)
 * @param storage `{ url, secret }` of a server that has the same files
 */
export function createServer({ folder, mode = 'direct', publicUrl, storage }) {
  const files = fileResources(folder, { baseUri: 'files:///' })
  const sign = storage && signer(storage)

  async function open(uri, context) {
    const file = await files.open(uri, context)
    if (!file) return undefined
    if ((await stat(file.path)).size < SMALL) return NOT_STREAMABLE
    return mode === 'redirect' ? { redirect: sign(uri.slice('files:///'.length)) } : file
  }

  // The one line.
  const streams = mcpStreams({
    resources: resources({
      open,
      streamable: (_uri, entry) => entry.size >= SMALL,
      ...(mode === 'download' && { mode, publicUrl })
    })
  })

  const sessions = new Map()
  const app = express()
  app.use('/mcp', streams)
  app.all('/mcp', express.json(), async (req, res) => {
    const id = req.get('mcp-session-id')
    const transport =
      sessions.get(id) ?? (isInitializeRequest(req.body) ? await openSession() : undefined)
    if (transport) await transport.handleRequest(req, res, req.body)
    else
      res
        .status(id ? 404 : 400)
        .json({ jsonrpc: '2.0', id: null, error: { code: -32000, message: 'No session' } })
  })

  async function openSession() {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => sessions.set(id, transport),
      onsessionclosed: id => sessions.delete(id)
    })
    const server = new Server(
      { name: 'files', version: '1.0.0' },
      { capabilities: { resources: {} } }
    )
    server.setRequestHandler(ListResourcesRequestSchema, async () => {
      const entries = await files.list()
      return {
        resources: entries.map(({ uri, name, mimeType, size }) => ({ uri, name, mimeType, size }))
      }
    })
    server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }) => {
      const file = await files.open(uri)
      if (!file) throw new McpError(ErrorCode.InvalidParams, `No such resource: ${uri}`)
      const bytes = await readFile(file.path)
      return {
        contents: [
          { uri, ...(isText(bytes) ? { text: `${bytes}` } : { blob: bytes.toString('base64') }) }
        ]
      }
    })
    await server.connect(transport)
    return transport
  }

  return {
    app,
    async close() {
      await streams.close()
      for (const transport of sessions.values()) await transport.close()
    }
  }
}

const isText = bytes => Buffer.from(`${bytes}`).equals(bytes)

if (isMain(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      mode: { type: 'string', default: 'direct' },
      port: { type: 'string', default: '3000' }
    }
  })
  const [folder] = positionals
  const { mode } = values
  const port = Number(values.port)
  const isPort = Number.isInteger(port) && port >= 0 && port < 65_536
  if (!folder || !['direct', 'redirect', 'download'].includes(mode) || !isPort) {
    console.error(
      'Usage: node examples/files/server.js <folder> [--mode direct|redirect|download] [--port 3000]'
    )
    process.exit(2)
  }
  const secret = randomUUID()
  const storage =
    mode === 'redirect'
      ? { ...(await listen(createStorage({ folder, secret }))), secret }
      : undefined
  // Download URLs are made from the address that clients see, so the server comes after its port.
  const { url, stop } = await listen((req, res) => server.app(req, res), port).catch(error => {
    console.error(error.message) // such as a port that is in use
    process.exit(1)
  })
  const server = createServer({ folder, mode, storage, publicUrl: `${url}/mcp` })
  console.log(`${folder} at ${url}/mcp, ${mode}`)
  // Nobody new comes, and what is on its way arrives.
  const close = () => {
    stop()
    storage?.stop()
    void server.close()
  }
  process.once('SIGTERM', close).once('SIGINT', close)
}
