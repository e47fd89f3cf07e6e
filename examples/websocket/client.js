// The official client on a transport that comes back: it is given a function that makes the next
// wire.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { reconnectingTransport } from 'express-mcp-streams/client'
import { WebSocket } from 'ws'
import { WebSocketTransport } from './web-socket.js'

export async function callTool(url, { onprogress, onReconnect }) {
  const client = new Client({ name: 'websocket', version: '1.0.0' })
  const nextWire = () => new WebSocketTransport(new WebSocket(url))
  // A short delay makes a short demo: the default is 500 ms.
  await client.connect(reconnectingTransport(nextWire, { minTimeout: 50, onReconnect }))
  try {
    return await client.callTool({ name: 'count' }, undefined, { onprogress })
  } finally {
    await client.close()
  }
}
