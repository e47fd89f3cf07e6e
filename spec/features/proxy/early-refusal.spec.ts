// A target that answers before it has read the body, behind the command `proxy`.

import { expect, it } from '@jest/globals'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { Awaitable } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listenOnLoopback } from '../../helpers/listen.js'
import { open } from '../hardening/wire.js'
import { startProxy } from './start-proxy.js'

const REFUSAL =
  'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 4\r\n\r\nlog '

/** A server that reads what comes with the head, and no more. */
async function deafTarget() {
  const sockets = new Awaitable<Socket>()
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    closeLater(() => socket.destroy())
    socket.once('data', () => {
      socket.pause()
      sockets.push(socket)
    })
  })
  closeLater(() => server.close())
  const port = await listenOnLoopback(server)
  return { sockets, ...(await startProxy(`http://127.0.0.1:${port}/mcp`)) }
}

// No method of MCP, so that its body is passed on piece by piece.
const head = (length: number): string =>
  `PUT /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\n`

it('is heard even where the next write to it fails', async () => {
  const { port, sockets, err } = await deafTarget()
  const client = open(port)
  client.socket.write(`${head(2)}a`)
  const target = await sockets.nth(1)
  // In this order, so that the proxy writes before it can read.
  client.socket.write('b')
  target.write(REFUSAL)
  target.resetAndDestroy()
  await until(() => client.text().endsWith('log '))
  expect(client.text()).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\n/)
  expect(err).toEqual([])
})

it('leaves the client a connection that can be used', async () => {
  const { port, sockets } = await deafTarget()
  const { socket, text } = open(port)
  const body = Buffer.alloc(20_000_000)
  socket.write(head(body.length))
  socket.write(body)
  const target = await sockets.nth(1)
  target.write(REFUSAL)
  await until(() => text().endsWith('log '))
  const closed = once(socket, 'close')
  socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
  await closed
  expect(text()).toMatch(/log HTTP\/1\.1 200 OK\r\n[^]*\r\nok\n/)
})

it('that is gone before it has said anything is a 502', async () => {
  const { port, sockets, err } = await deafTarget()
  const client = open(port)
  client.socket.write(`${head(2)}a`)
  const target = await sockets.nth(1)
  client.socket.write('b')
  target.resetAndDestroy()
  await until(() => client.text().includes('endpoint-failed'))
  expect(client.text()).toMatch(/^HTTP\/1\.1 502 /)
  expect(err).toHaveLength(1)
})
