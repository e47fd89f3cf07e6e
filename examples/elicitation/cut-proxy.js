// A bad network: a TCP proxy that cuts the wire where it hurts.

import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** In this order: what is cut off after what, of which request. */
export const plan = [
  {
    what: 'in the middle of the first question',
    kind: 'FIN',
    of: /^POST/,
    response: /"elicitation\/create"/
  },
  {
    what: 'on the way of the first answer',
    kind: 'RST',
    of: /^POST \S+stream=/,
    request: /^.*\r\n/
  },
  {
    what: 'behind the second answer: has it arrived?',
    kind: 'RST',
    of: /^POST \S+stream=.+~/,
    response: /^HTTP/
  }
]

/**
 * Stands in front of `port` and carries out the `cuts`, telling `onCut(cut)`. Expects one request
 * per connection.
 */
export async function cutProxy({ port, cuts: plan, onCut }) {
  const cuts = [...plan]
  const sockets = new Set()

  const proxy = createServer({ noDelay: true }, client => {
    const server = connect({ port, host: '127.0.0.1', noDelay: true })
    const passed = { request: '', response: '' }

    /** Passes on what may pass. */
    const pass = (direction, to, bytes) => {
      const before = passed[direction].length
      passed[direction] += bytes.latin1Slice()
      const [cut] = cuts
      const found = cut?.of.test(passed.request) && cut[direction]?.exec(passed[direction])
      if (!found) return void to.write(bytes)
      cuts.shift()
      onCut(cut)
      to.write(bytes.subarray(0, Math.max(0, found.index + found[0].length - before)))
      for (const socket of [client, server]) {
        socket.removeAllListeners('data').resume()
        if (cut.kind === 'FIN') socket.end()
        else socket.resetAndDestroy()
      }
    }
    client.on('data', bytes => pass('request', server, bytes))
    server.on('data', bytes => pass('response', client, bytes))

    for (const [socket, other] of [
      [client, server],
      [server, client]
    ]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('end', () => other.end())
      socket.on('close', () => sockets.delete(socket) && other.destroySoon())
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
