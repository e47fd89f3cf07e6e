// A connection in memory: what goes in at one end comes out at the other, as on a wire, and it ends
// as one does.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { once } from 'node:events'
import { createServer, request, type IncomingMessage } from 'node:http'
import { connect, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { isLoopback, memoryConnection } from '../../../lib/endpoint/loopback.js'
import { closeAll, closeLater, listen } from '../../helpers/listen.js'

afterEach(closeAll)

const pair = (original: object = {}) => {
  const ends = memoryConnection(original as Socket)
  closeLater(() => {
    ends.client.destroy()
    ends.server.destroy()
  })
  return ends
}

describe.each<[from: 'client' | 'server', to: 'client' | 'server']>([
  ['client', 'server'],
  ['server', 'client']
])('from %s to %s', (from, to) => {
  it('bytes pass as they are, in order, and the end comes behind them', async () => {
    const ends = pair()
    const received = text(ends[to])
    for (let i = 0; i < 100; i++) ends[from].write(`${i} `)
    ends[from].end('grün 😀')
    expect(await received).toBe(`${Array.from({ length: 100 }, (_, i) => `${i} `).join('')}grün 😀`)
  })

  it('one direction may end while the other goes on', async () => {
    const ends = pair()
    const heard = { client: '', server: '' }
    for (const end of ['client', 'server'] as const)
      ends[end].on('data', (bytes: Buffer) => (heard[end] += bytes.toString()))
    ends[from].end('question')
    await once(ends[to], 'end')
    expect([heard[to], ends[to].destroyed]).toEqual(['question', false])
    ends[to].end('answer')
    await once(ends[from], 'end')
    expect(heard[from]).toBe('answer')
  })

  it('a reader that does not read holds the writer up, and loses nothing', async () => {
    const ends = pair()
    const chunk = Buffer.alloc(16 * 1024, 'x')
    let written = 0
    while (ends[from].write(chunk) && written < 1000) written++
    expect(written).toBeLessThan(20)
    let hasDrained = false
    ends[from].once('drain', () => (hasDrained = true))
    await new Promise(setImmediate)
    expect(hasDrained).toBe(false)
    let received = 0
    ends[to].on('data', (bytes: Buffer) => (received += bytes.length))
    await once(ends[from], 'drain')
    expect(received).toBe((written + 1) * chunk.length)
  })

  it('one end that is destroyed takes the other along, not in the same tick, and without an error', async () => {
    const ends = pair()
    const errors: unknown[] = []
    ends[to].on('error', error => errors.push(error))
    const closed = once(ends[to], 'close')
    ends[from].destroy()
    expect(ends[to].destroyed).toBe(false)
    await closed
    expect([ends[to].destroyed, errors]).toEqual([true, []])
  })

  it('one end that is destroyed takes the other along in nobody’s name: a patch there is not called', async () => {
    const ends = pair()
    const destroy = jest.fn(ends[to].destroy)
    ends[to].destroy = destroy
    ends[from].destroy()
    await once(ends[to], 'close')
    expect(destroy).not.toHaveBeenCalled()
  })

  it('what nobody reads any more goes nowhere, and does not fail', async () => {
    const ends = pair()
    const closed = once(ends[to], 'close')
    ends[to].destroy()
    expect(() => ends[from].write('into the void')).not.toThrow()
    await closed
    await new Promise(setImmediate)
    expect(ends[from].destroyed).toBe(true)
  })
})

describe('the server’s end', () => {
  it('looks as if it came from where the original comes from', async () => {
    const { port, server } = await listen(() => {})
    const accepted = once(server, 'connection') as Promise<[Socket]>
    const socket = connect(port, '127.0.0.1')
    closeLater(() => socket.destroy())
    const [original] = await accepted
    const { server: end, client } = pair(original)
    for (const name of [
      'remoteAddress',
      'remotePort',
      'remoteFamily',
      'localAddress',
      'localPort',
      'localFamily'
    ] as const) {
      expect((end as Socket)[name]).toBe(original[name])
      expect((client as Socket)[name]).toBeUndefined()
    }
    expect((end as Socket).remoteAddress).toBe('127.0.0.1')
    expect((end as Socket).address()).toEqual(original.address())
    expect('encrypted' in end && end.encrypted).toBe(undefined)
  })

  it('has the facts of a TLS connection, and its questions are answered by that', () => {
    class Tls {
      readonly encrypted = true
      readonly authorized = true
      readonly alpnProtocol = 'http/1.1'
      readonly servername = 'mcp.example'
      readonly #subject = { CN: 'alice' }
      getPeerCertificate() {
        return { subject: this.#subject }
      }
    }
    const { server } = pair(new Tls())
    const end = server as unknown as Tls
    expect([end.encrypted, end.authorized, end.alpnProtocol, end.servername]).toEqual([
      true,
      true,
      'http/1.1',
      'mcp.example'
    ])
    expect(end.getPeerCertificate()).toEqual({ subject: { CN: 'alice' } })
  })

  it('is known as ours, and nothing else is', async () => {
    const { server, client } = pair()
    expect([
      isLoopback({ socket: server }),
      isLoopback({ socket: client }),
      isLoopback({ socket: new Socket() })
    ]).toEqual([true, false, false])
  })

  it('takes what applications do to sockets', () => {
    const socket = pair().server as Socket
    expect(socket.setTimeout(1000).setNoDelay(true).setKeepAlive(true, 1).ref().unref()).toBe(
      socket
    )
  })
})

describe('under HTTP', () => {
  const exchange = async (
    handler: (req: IncomingMessage) => string,
    body: string,
    prepare = (_end: Duplex): void => {}
  ) => {
    const server = createServer(async (req, res) => {
      res.end(handler(req) + (await text(req)))
    })
    const { client, server: end } = pair({ remoteAddress: '192.0.2.7' })
    prepare(end)
    server.emit('connection', end)
    const sent = request({ createConnection: () => client, method: 'POST', headers: { host: 'x' } })
    sent.end(body)
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    return text(response)
  }

  it('carries a request and its response', async () => {
    expect(await exchange(req => `${req.socket.remoteAddress} ${req.method} `, 'body')).toBe(
      '192.0.2.7 POST body'
    )
  })

  it('carries megabytes', async () => {
    const body = 'x'.repeat(5 * 1024 * 1024)
    expect((await exchange(() => '', body)) === body).toBe(true)
  })
})
