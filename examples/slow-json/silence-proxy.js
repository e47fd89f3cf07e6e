// A proxy as they come: it forwards every byte, and cuts a connection on which nothing has passed
// for so many milliseconds.

import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** Stands in front of `port`. */
export async function silenceProxy({ port, limit }) {
  const sockets = new Set()
  const proxy = createServer(client => {
    const server = connect({ port, host: '127.0.0.1' })
    let timer
    const end = () => {
      clearTimeout(timer)
      for (const socket of [client, server]) socket.destroy()
    }
    const heard = () => {
      clearTimeout(timer)
      timer = setTimeout(end, limit)
    }
    for (const [from, to] of [
      [client, server],
      [server, client]
    ]) {
      sockets.add(from)
      from.on('data', bytes => {
        heard()
        to.write(bytes)
      })
      from.on('error', end)
      from.on('close', () => {
        sockets.delete(from)
        end()
      })
    }
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  return {
    port: proxy.address().port,
    close() {
      proxy.close()
      for (const socket of sockets) socket.destroy()
    }
  }
}
