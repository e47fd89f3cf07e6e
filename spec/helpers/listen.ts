// Puts a handler, an Express or Connect app, or a server of one's own on a free loopback port.

import { createServer, Server, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Server as NetServer } from 'node:net'
import { closeLater } from './close-all.js'

export { closeAll, closeLater } from './close-all.js'

/**
 * Anything that `http.createServer` takes; Express 4 and 5 and Connect apps are functions of this
 * shape.
 */
export type Handler = (req: IncomingMessage, res: ServerResponse) => unknown

export interface Listening {
  /** `http://127.0.0.1:<port>`, without a slash at its end. */
  url: string
  port: number
  server: Server
  /** Stops listening and destroys every connection. Safe to call twice. */
  close(): Promise<void>
}

/** Listens on port 0 of 127.0.0.1. Closed by `closeAll`. */
export async function listen(app: Handler | Server): Promise<Listening> {
  const server = app instanceof Server ? app : createServer((req, res) => void app(req, res))
  const port = await listenOnLoopback(server)
  const close = closeLater(() => {
    const closed = new Promise<void>(resolve => server.close(() => resolve()))
    server.closeAllConnections()
    return closed
  })
  return { url: `http://127.0.0.1:${port}`, port, server, close }
}

/** The bare part of `listen`, for servers that are not HTTP servers; the caller closes. */
export async function listenOnLoopback(server: NetServer): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      server.off('error', reject)
      resolve()
    })
  })
  return (server.address() as AddressInfo).port
}
