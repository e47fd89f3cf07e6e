// The load process of the resource bench: bytes off the wire, fast or slowly, or by the official
// client; each of them checked.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { streamResource } from 'express-mcp-streams/client'
import { answer } from './processes.js'
import { BytesCheck } from './resource-bytes.js'
import { Wire } from './wire.js'

const capabilities = { 'io.modelcontextprotocol/clientCapabilities': { resourceStreaming: {} } }

/**
 * Asks for the bytes: by `resources/stream` where there is a `uri`, by GET of a `target` otherwise.
 */
function ask(wire, { uri, target }, sink) {
  if (uri === undefined) return wire.request('GET', target, { sink })
  const headers = { Accept: '*/*' }
  const body = {
    jsonrpc: '2.0',
    id: 1,
    method: 'resources/stream',
    params: { uri, _meta: capabilities }
  }
  return wire.request('POST', '/mcp', { headers, body, sink })
}

/** Takes no more than `rate` bytes a second. */
class SlowCheck extends BytesCheck {
  constructor(wire, rate) {
    super()
    Object.assign(this, { wire, rate, began: performance.now() })
  }

  push(chunk, from, to) {
    super.push(chunk, from, to)
    const ahead = (this.bytes / this.rate) * 1000 - (performance.now() - this.began)
    if (ahead < 5) return
    this.wire.socket.pause()
    setTimeout(() => this.wire.socket.resume(), ahead)
  }
}

const seconds = async work => {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

const clients = {
  /** `resources/stream`, by ours. */
  async stream(transport, uri, check) {
    const { stream } = await streamResource(transport, uri)
    for await (const chunk of stream) check.push(chunk)
  },

  /** `resources/read`, by the official client. */
  async read(transport, uri, check) {
    const client = new Client({ name: 'bench', version: '1.0.0' })
    await client.connect(transport)
    const { contents } = await client.readResource({ uri }, { timeout: 300_000 })
    check.push(Buffer.from(contents[0].blob, 'base64'))
  }
}

answer({
  /** One after the other, as fast as they come. */
  download: ({ port, times, size, ...what }) =>
    seconds(async () => {
      for (let i = 0; i < times; i++) {
        const wire = await Wire.open(port)
        const check = new BytesCheck()
        await ask(wire, what, check)
        wire.leave()
        check.verify(size)
      }
    }),

  /**
   * One client at `rate` to the end, and meanwhile `slow` of them at `slowRate`, which then leave.
   */
  async downloadSlowly({ port, size, rate, slow, slowRate, ...what }) {
    const others = await Promise.all(Array.from({ length: slow }, () => Wire.open(port)))
    const leaving = others.map(wire => ask(wire, what, new SlowCheck(wire, slowRate)))
    const wire = await Wire.open(port)
    const check = new SlowCheck(wire, rate)
    const took = await seconds(() => ask(wire, what, check))
    check.verify(size)
    for (const one of [wire, ...others]) one.leave()
    await Promise.all(leaving)
    return took
  },

  /** Whether the first byte comes; its server holds the second one back. */
  async firstByte({ port, uri }) {
    const wire = await Wire.open(port)
    const milliseconds = await new Promise((resolve, reject) => {
      const began = performance.now()
      ask(wire, { uri }, { push: () => resolve(performance.now() - began) }).catch(reject)
    })
    wire.leave()
    return milliseconds
  },

  /** By a client of the kind `how`, from nothing to the last byte. */
  async byClient({ port, how, uri, size }) {
    const transport = new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`))
    const check = new BytesCheck()
    const took = await seconds(() => clients[how](transport, uri, check))
    await transport.close()
    check.verify(size)
    return took
  },

  cpu() {
    const { user, system } = process.cpuUsage()
    return user + system
  }
})
