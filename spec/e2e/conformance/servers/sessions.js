// The sessions of a stateful endpoint, as the SDK's own examples keep them: one transport per
// `Mcp-Session-Id`.
import { randomUUID } from 'node:crypto'

/**
 * An Express handler. `connect(options)` makes a transport with these options, already connected to
 * a new server.
 */
export function sessions(connect) {
  const transports = new Map()

  const open = async () => {
    const transport = await connect({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => void transports.set(id, transport),
      onsessionclosed: id => void transports.delete(id)
    })
    return transport
  }

  return async (req, res) => {
    const id = req.headers['mcp-session-id']
    const transport = id === undefined ? await open() : transports.get(id)
    if (transport === undefined) {
      res
        .status(404)
        .json({ jsonrpc: '2.0', error: { code: -32001, message: 'Session not found' }, id: null })
      return
    }
    await transport.handleRequest(req, res, req.body)
  }
}
