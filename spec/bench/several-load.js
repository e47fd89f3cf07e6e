// The clients of several instances: they go to one that has not what they want.

import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { answer } from './processes.js'

const agent = new Agent({ keepAlive: true, maxSockets: Infinity })
const headers = {
  Accept: 'application/json, text/event-stream',
  'Content-Type': 'application/json',
  'MCP-Protocol-Version': '2025-11-25'
}
let requestId = 0
const call = args => ({
  jsonrpc: '2.0',
  id: ++requestId,
  method: 'tools/call',
  params: { name: 'work', arguments: { count: 0, size: 200, ...args } }
})

async function send(method, port, { path = '/mcp', body, more } = {}) {
  const sent = request({ method, port, path, agent, headers: { ...headers, ...more } })
  sent.end(body === undefined ? undefined : JSON.stringify(body))
  const [response] = await once(sent, 'response')
  response.on('error', () => undefined)
  return response
}

async function textOf(response) {
  let text = ''
  for await (const chunk of response) text += chunk
  return text
}

let open = []
let following

/** A call at one instance, followed at another one once its first event has come. */
async function follow(home, away) {
  const first = await send('POST', home, { body: call({ count: 1, park: true }) })
  let text = ''
  while (!text.includes('\n\ndata') && !text.includes('notifications/progress'))
    text += (await once(first, 'data'))[0]
  const path = `/mcp${/<(\?[^>]*)>; rel="stream"/.exec(first.headers.link)[1]}`
  const [lastEventId] = text.match(/(?<=^id: ).*(?=$)/gm).slice(-1)
  first.destroy()
  const second = await send('GET', away, { path, more: { 'Last-Event-ID': lastEventId } })
  if (second.statusCode !== 200) throw new Error(`${second.statusCode} at another instance`)
  return second
}

answer({
  async openSession({ port }) {
    const clientInfo = { name: 'bench', version: '1.0.0' }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
    const body = { jsonrpc: '2.0', id: 0, method: 'initialize', params }
    const response = await send('POST', port, { body })
    await textOf(response)
    return response.headers['mcp-session-id']
  },

  /** One call after the other, in milliseconds. */
  async roundTrips({ port, session, calls }) {
    const took = []
    for (let i = 0; i < calls; i++) {
      const body = call({})
      const start = performance.now()
      const more = { 'Mcp-Session-Id': session }
      const text = await textOf(await send('POST', port, { body, more }))
      took.push(performance.now() - start)
      if (!text.includes('"result"')) throw new Error(`Not a response: ${text}`)
    }
    took.sort((a, b) => a - b)
    return { p50: took[took.length >> 1], p99: took[Math.floor(took.length * 0.99)] }
  },

  /** So many calls at each port, each followed at the next one. */
  async park({ ports, calls }) {
    const places = Array.from({ length: calls * ports.length }, (_, i) => i % ports.length)
    let next = 0
    const work = async () => {
      while (next < places.length) {
        const place = places[next++]
        const response = await follow(ports[place], ports[(place + 1) % ports.length])
        response.resume()
        open.push(response)
      }
    }
    await Promise.all(Array.from({ length: 50 }, work))
  },

  leave() {
    for (const response of open) response.destroy()
    open = []
  },

  /** Resolves when the call is told to be lost. */
  async follow({ home, away }) {
    let begun
    following = new Promise(resolve => (begun = resolve))
    const response = await follow(home, away)
    begun()
    const text = await textOf(response)
    if (!text.includes('owner-gone')) throw new Error(`Not told: ${text}`)
  },

  async following() {
    while (following === undefined) await new Promise(setImmediate)
    await following
  }
})
