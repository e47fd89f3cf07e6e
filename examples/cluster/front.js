// What stands in front: each request goes to the next instance, whoever's it is. And a network that
// can be cut.

import { once } from 'node:events'
import { createServer, request } from 'node:http'

/** `cut()` breaks all connections to clients, and says how many there were. */
export async function roundRobin(instances) {
  let turn = 0
  const server = createServer((req, res) => {
    const able = instances.filter(({ isOut }) => !isOut)
    const { port } = able[turn++ % able.length]
    const { method, headers, url: path } = req
    const passed = request({ host: '127.0.0.1', port, method, headers, path, agent: false })
    passed.on('response', answer => {
      res.writeHead(answer.statusCode, answer.rawHeaders)
      res.flushHeaders()
      answer.pipe(res)
      answer.on('close', () => answer.complete || res.destroy())
    })
    passed.on('error', () => res.destroy())
    res.on('close', () => passed.destroy())
    req.pipe(passed)
  })
  const sockets = new Set()
  server.on('connection', socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  return {
    url: new URL(`http://127.0.0.1:${server.address().port}/mcp`),
    cut() {
      const count = sockets.size
      for (const socket of sockets) socket.resetAndDestroy()
      return count
    },
    close() {
      server.close()
      server.closeAllConnections()
    }
  }
}
