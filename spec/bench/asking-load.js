// The load process of the hand-off bench: calls that are asked something, answered over an open
// connection or by a hand-off.

import { setTimeout as sleep } from 'node:timers/promises'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { resumableFetch } from 'express-mcp-streams/client'
import { answer } from './processes.js'
import { median } from './table.js'
import { Text, Wire } from './wire.js'

const JSON_HEADERS = {
  accept: 'application/json, text/event-stream',
  'content-type': 'application/json',
  'mcp-protocol-version': '2025-11-25'
}
const INITIALIZE = {
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: { elicitation: {} },
    clientInfo: { name: 'bench', version: '1.0.0' }
  }
}
let requestId = 0
let named = 0

/** One client: a session where the endpoint has them, and a fetch of its own. */
class AskedClient {
  /** Called when the server says that it waits. */
  onTurn
  #url
  #fetch
  #headers = JSON_HEADERS

  static async open(port, handsOff, hasSession) {
    const client = new AskedClient(port, handsOff)
    if (hasSession) await client.#openSession()
    return client
  }

  constructor(port, handsOff) {
    this.#url = `http://127.0.0.1:${port}/mcp`
    const watched = async (url, init) => {
      const response = await fetch(url, init)
      if (response.status === 204) this.onTurn?.()
      return response
    }
    this.#fetch = handsOff ? resumableFetch({ fetch: watched, minTimeout: 1 }) : fetch
  }

  async #openSession() {
    const response = await this.#post({ id: 0, ...INITIALIZE })
    this.#headers = { ...JSON_HEADERS, 'mcp-session-id': response.headers.get('mcp-session-id') }
    await response.text()
    await this.#post({ method: 'notifications/initialized' })
  }

  #post(message) {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message })
    return this.#fetch(this.#url, { method: 'POST', headers: this.#headers, body })
  }

  /**
   * A call; `think` is awaited before each answer. Answers the seconds from the last answer to the
   * event after it.
   */
  async call(questions, think) {
    const id = ++requestId
    const { body } = await this.#post({
      id,
      method: 'tools/call',
      params: { name: 'ask', arguments: { questions } }
    })
    const events = body
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventSourceParserStream())
    const names = []
    let answered
    let answering
    let text
    let took
    for await (const { data } of events) {
      if (data === '') continue
      const message = JSON.parse(data)
      if (answered !== undefined) took = (performance.now() - answered) / 1000
      if (message.method === 'elicitation/create') {
        answering = Promise.resolve(think?.()).then(() => {
          const name = `name${++named}`
          names.push(name)
          answered = performance.now()
          return this.#post({ id: message.id, result: { action: 'accept', content: { name } } })
        })
      } else if (message.id === id) text = message.result.content[0].text
      else throw new Error(`Unexpected message: ${data}`)
    }
    const { status } = await answering
    if (status !== 202) throw new Error(`An answer got ${status}`)
    if (names.length !== questions || text !== names.join(' '))
      throw new Error(`Answered ${names}, and got ${text}`)
    return took
  }
}

/** Runs `work` so many times, `width` at a time; answers all results. */
async function inParallel(count, width, work) {
  const results = []
  let next = 0
  const run = async () => {
    while (next < count) {
      const index = next++
      results[index] = await work(index)
    }
  }
  await Promise.all(Array.from({ length: width }, run))
  return results
}

const clients = new Map()
const clientsFor = async ({ port, handsOff, hasSession }, count) => {
  if (!clients.has(port)) clients.set(port, [])
  const known = clients.get(port)
  while (known.length < count) known.push(await AskedClient.open(port, handsOff, hasSession))
  return known.slice(0, count)
}

let waiting = []
let open = []

answer({
  cpu() {
    const { user, system } = process.cpuUsage()
    return user + system
  },

  /** Calls in a closed loop, each answered at once. Answers calls per second. */
  async calls({ concurrent, calls, questions, ...server }) {
    const clients = await clientsFor(server, concurrent)
    const began = performance.now()
    await Promise.all(
      clients.map(async client => {
        for (let i = 0; i < calls; i++) await client.call(questions)
      })
    )
    return (calls * concurrent * 1000) / (performance.now() - began)
  },

  /**
   * Calls one after the other, answered when the server waits. Answers the median time from an
   * answer to the next event.
   */
  async answerTime({ calls, ...server }) {
    const [client] = await clientsFor(server, 1)
    const think = () =>
      server.handsOff ? new Promise(resolve => (client.onTurn = resolve)) : sleep(5)
    const times = []
    for (let i = 0; i < calls; i++) times.push(await client.call(1, think))
    return median(times)
  },

  /** Sessions, whose ids `wait` uses in turn. */
  async openSessions({ port, count }) {
    return inParallel(count, 10, async () => {
      const wire = await Wire.open(port)
      const body = { jsonrpc: '2.0', id: 0, ...INITIALIZE }
      const { headers } = await wire.request('POST', '/mcp', { body, sink: new Text() })
      const session = { 'Mcp-Session-Id': headers['mcp-session-id'] }
      await wire.request('POST', '/mcp', {
        headers: session,
        body: { jsonrpc: '2.0', method: 'notifications/initialized' }
      })
      wire.leave()
      return session
    })
  },

  /**
   * Calls that have been asked, and whose human thinks: until 204 where they are handed off; else
   * the connection stays open.
   */
  async wait({ port, calls, handsOff, sessions = [] }) {
    waiting = await inParallel(calls, 50, async index => {
      const wire = await Wire.open(port)
      const session = sessions.length > 0 ? sessions[index % sessions.length] : {}
      const headers = { 'MCP-Protocol-Version': '2025-11-25', Prefer: 'rel=stream', ...session }
      const body = {
        jsonrpc: '2.0',
        id: ++requestId,
        method: 'tools/call',
        params: { name: 'ask' }
      }
      body.params.arguments = { questions: 1 }
      const call = { id: body.id, headers, ...(await ask(wire, headers, body, handsOff)) }
      if (!handsOff) open.push(wire)
      else {
        const resumed = await wire.request('GET', call.target, {
          headers: { ...headers, 'Last-Event-ID': call.eventId }
        })
        if (resumed.status !== 204) throw new Error(`Not 204, but ${resumed.status}`)
        wire.leave()
      }
      return call
    })
  },

  /** Answers all that was handed off; each call gets its response. */
  answerAll: ({ port }) =>
    inParallel(waiting.length, 20, async index => {
      const { id, headers, target, questionId } = waiting[index]
      const wire = await Wire.open(port)
      const text = new Text()
      const body = [
        {
          jsonrpc: '2.0',
          id: questionId,
          result: { action: 'accept', content: { name: `n${id}` } }
        }
      ]
      const { status } = await wire.request('POST', target, { headers, body, sink: text })
      if (status !== 200 || !text.text.includes(`"text":"n${id}"`))
        throw new Error(`Got ${status}: ${text.text}`)
      wire.leave()
    }),

  leave() {
    for (const wire of open) wire.leave()
    open = []
  }
})

/** Makes a call and reads its question: to the end of the connection where it is handed off. */
function ask(wire, headers, body, handsOff) {
  let text = ''
  let head
  const asked = () => {
    const questionId = /"id":("[^"]*"|\d+)/.exec(
      /^data: .*"elicitation\/create".*$/m.exec(text)?.[0]
    )?.[1]
    if (questionId === undefined) throw new Error(`No question: ${text}`)
    const target = /<(\?stream=[^>]+)>/.exec(head.headers.link)?.[1]
    return {
      questionId: JSON.parse(questionId),
      target: `/mcp${target}`,
      eventId: text
        .match(/^id: .*$/gm)
        ?.at(-1)
        .slice(4)
    }
  }
  return new Promise((resolve, reject) => {
    const sink = {
      open: parsed => (head = parsed),
      push(bytes, from, to) {
        text += bytes.latin1Slice(from, to)
        if (!handsOff && text.includes('"elicitation/create"') && text.endsWith('\n\n'))
          resolve(asked())
      }
    }
    wire
      .request('POST', '/mcp', { headers, body, sink })
      .then(() => resolve(asked()), reject)
      .catch(reject)
  })
}
