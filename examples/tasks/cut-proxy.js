// A wire that does not last: a TCP proxy that cuts all of its connections again and again, from
// `begin` on.

import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** `every`: milliseconds from one cut to the next. */
export async function cutProxy({ port, every }) {
  const sockets = new Set()
  let cuts = 0
  const server = createServer(client => {
    const upstream = connect(port, '127.0.0.1')
    sockets.add(client)
    const over = () => {
      sockets.delete(client)
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) socket.on('error', over).on('close', over)
    client.pipe(upstream)
    upstream.pipe(client)
  })
  let timer
  const begin = () => {
    timer = setInterval(() => {
      cuts += sockets.size
      for (const socket of sockets) socket.resetAndDestroy()
    }, every)
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () => {
    clearInterval(timer)
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  return { port: server.address().port, begin, cuts: () => cuts, close }
}
