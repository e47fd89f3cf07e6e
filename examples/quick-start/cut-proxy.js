// A bad network: a TCP proxy that lets so many bytes of a response through, then cuts the wire.
// Again and again.

import { once } from 'node:events'
import { connect, createServer } from 'node:net'

const kinds = ['FIN', 'RST', 'silence']
const silence = 800

/**
 * How each wire is cut, and after how many bytes of a response; the same seed gives the same cuts.
 */
export function planCuts(count, seed) {
  let state = seed
  const random = () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32
  return Array.from({ length: count }, (_, i) => ({
    kind: kinds[i % 3],
    after: 1_400 + Math.floor(random() * 1_400)
  }))
}

/**
 * Stands in front of `port` and carries out the `plan`, telling `onCut({ kind, after })` and
 * `onResume(sequence)`.
 */
export async function cutProxy({ port, plan, onCut, onResume }) {
  const cuts = [...plan]
  const wires = new Set()
  const sockets = new Set()

  const proxy = createServer({ noDelay: true }, client => {
    const wire = { client, server: connect({ port, host: '127.0.0.1', noDelay: true }) }
    wires.add(wire)
    let passed = 0

    client.on('data', request => {
      passed = 0
      wire.server.write(request)
      // `Last-Event-ID: <stream>.r<request id>.<sequence>`. The client's idle listen stream comes
      // back as well, with sequence 0.
      const sequence = /^last-event-id: [^.]+(?:\.r\d+)?\.([1-9]\d*)/im.exec(request)?.[1]
      if (sequence) onResume?.(Number(sequence))
    })
    wire.server.on('data', response => {
      const room = cuts.length > 0 ? cuts[0].after - passed : Infinity
      client.write(response.subarray(0, room))
      passed += response.length
      if (response.length > room) cut(cuts.shift())
    })
    for (const socket of [client, wire.server]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => wires.has(wire) && sever(wire, 'FIN'))
    }
  })

  function cut({ kind, after }) {
    onCut?.({ kind, after })
    for (const wire of wires) sever(wire, kind)
  }

  function sever(wire, kind) {
    const { client, server } = wire
    wires.delete(wire)
    for (const socket of [client, server]) {
      socket.removeAllListeners('data')
      if (kind === 'FIN') socket.end().resume()
      if (kind === 'RST') socket.resetAndDestroy()
      if (kind === 'silence') socket.pause()
    }
    // The client learns of it in the end. The server never does: its side stays half open.
    if (kind === 'silence') setTimeout(() => client.resetAndDestroy(), silence).unref()
  }

  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')

  return {
    port: proxy.address().port,
    cuts: () => plan.length - cuts.length,
    close() {
      proxy.close()
      for (const socket of sockets) socket.destroy()
    }
  }
}
