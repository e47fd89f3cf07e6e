// The load process of the fetch bench: calls by plain fetch or by `resumableFetch`, and how long
// they take.

import { setMaxListeners } from 'node:events'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { resumableFetch } from 'express-mcp-streams/client'
import { median } from './table.js'
import { answer } from './processes.js'

// The same request for both, so that the server does the same for both; and the signal that the SDK
// gives to each.
const headers = {
  accept: 'application/json, text/event-stream',
  'content-type': 'application/json',
  'mcp-protocol-version': '2025-11-25'
}
const { signal } = new AbortController()
setMaxListeners(0, signal)

const fetches = {
  plain: (url, { headers, ...init }) => {
    const key = crypto.getRandomValues(new Uint8Array(16)).join('')
    return fetch(url, {
      ...init,
      headers: { ...headers, prefer: 'rel=stream', 'idempotency-key': key }
    })
  },
  resumable: resumableFetch()
}
let requestId = 0

function call(port, name, args) {
  const _meta = { progressToken: 1 }
  const params = { name: 'work', arguments: args, _meta }
  const body = JSON.stringify({ jsonrpc: '2.0', id: ++requestId, method: 'tools/call', params })
  return fetches[name](`http://127.0.0.1:${port}/mcp`, { method: 'POST', headers, body, signal })
}

const readers = {
  async bytes({ body }, { count, size }) {
    let bytes = 0
    for await (const chunk of body) bytes += chunk.length
    if (bytes < count * size) throw new Error(`only ${bytes} bytes`)
  },
  async sdk({ body }, { count }) {
    let messages = 0
    for await (const { data } of body
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventSourceParserStream()))
      if (data !== '' && JSON.parse(data).jsonrpc === '2.0') messages++
    if (messages !== count + 1) throw new Error(`${messages} messages`)
  }
}

const seconds = async work => {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

answer({
  cpu() {
    const { user, system } = process.cpuUsage()
    return user + system
  },

  /** Calls of many events, several at a time. */
  read: ({ port, fetch, reader, concurrent, calls, count, size }) =>
    seconds(async () => {
      const worker = async () => {
        for (let i = 0; i < calls; i++)
          await readers[reader](await call(port, fetch, { count, size }), { count, size })
      }
      await Promise.all(Array.from({ length: concurrent }, worker))
    }),

  /** Calls one after the other: the median time of one. */
  async timeOfCalls({ port, fetch, reader, calls, count, size }) {
    const times = []
    for (let i = 0; i < calls; i++) {
      times.push(
        await seconds(async () =>
          readers[reader](await call(port, fetch, { count, size }), { count, size })
        )
      )
    }
    return median(times)
  }
})
