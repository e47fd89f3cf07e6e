// What each entry point is there for, done once: `doors` has what they export, however they were
// loaded. Nothing here knows whether it is in a bundle.
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const SECRET = 'a secret of sixteen characters or more'
const LEGACY = { 'mcp-protocol-version': '2025-11-25' }
const MODERN = '2026-07-28'
const DECLARED = { extensions: { 'io.modelcontextprotocol/tasks': {} } }

const openServers = []

/** Serves an endpoint behind the middleware, without Express; `url`: the endpoint's. */
async function serve(streams, endpoint) {
  const server = createServer((req, res) => streams(req, res, () => endpoint(req, res)))
  const url = await listening(server)
  openServers.push(async () => {
    await streams.close({ drain: 0 })
    server.close()
    server.closeAllConnections()
  })
  return { url: `${url}/mcp`, server }
}

async function listening(server) {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${server.address().port}`
}

const rpc = (method, params = {}, id = 1) => ({ jsonrpc: '2.0', id, method, params })
const result = (id, value) => ({ jsonrpc: '2.0', id, result: value })

function post(url, message, headers = {}) {
  return fetch(url, {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...headers
    },
    body: JSON.stringify(message),
    signal: AbortSignal.timeout(10_000)
  })
}

/** The response to a request, in JSON or as the last message of a stream. */
async function answered(response) {
  const text = await response.text()
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream')
  return JSON.parse(isStream ? /data: (\{.*)\n\n$/.exec(text.replace(/\n:.*\n/g, '\n'))[1] : text)
}

async function messageIn(req) {
  let text = ''
  for await (const piece of req) text += piece
  return text === '' ? undefined : JSON.parse(text)
}

function json(res, message, headers = {}) {
  res.writeHead(200, { 'content-type': 'application/json', ...headers })
  res.end(JSON.stringify(message))
}

/** An endpoint that answers each request with its own name, in JSON. */
const named = name => async (req, res) => json(res, result((await messageIn(req))?.id, { name }))

/** A stream with one event before the answer, which is given after `gate`. */
const slow = gate => async (req, res) => {
  const { id } = await messageIn(req)
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  const params = { level: 'info', data: 'begun' }
  res.write(
    `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params })}\n\n`
  )
  await gate
  res.end(`data: ${JSON.stringify(result(id, { done: true }))}\n\n`)
}

function gate() {
  let open
  const opened = new Promise(resolve => (open = resolve))
  return { open, opened }
}

/** Reads until a text is there; what follows is left. */
async function readUntil(response, text) {
  const reader = response.body.getReader()
  let read = ''
  while (!read.includes(text)) read += Buffer.from((await reader.read()).value).toString()
  await reader.cancel()
  return read
}

const jobs = {
  async main({ mcpStreams, currentStream }) {
    let current
    const { url } = await serve(mcpStreams(), async (req, res) => {
      const { id } = await messageIn(req)
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      current = currentStream().id
      res.end(`data: ${JSON.stringify(result(id, {}))}\n\n`)
    })
    const response = await post(url, rpc('tools/call'))
    await response.text()
    return response.headers.get('link') === `<?stream=${current}>; rel="stream"`
  },

  /** A session goes on at a process that has not begun it. */
  async sessions({ mcpStreams, sessions }) {
    const begun = []
    const process = () => {
      const known = new Set()
      return serve(mcpStreams({ sessions: sessions({ secret: SECRET }) }), async (req, res) => {
        const message = await messageIn(req)
        const session = req.headers['mcp-session-id']
        if (message?.method === 'initialize') {
          const id = `own-${begun.push(message.id)}`
          known.add(id)
          const value = {
            protocolVersion: '2025-11-25',
            capabilities: {},
            serverInfo: { name: 'a', version: '1' }
          }
          return json(res, result(message.id, value), { 'mcp-session-id': id })
        }
        if (!known.has(session)) return res.writeHead(404).end()
        if (message?.id === undefined) return res.writeHead(202).end()
        json(res, result(message.id, { session }))
      })
    }
    const [a, b] = [await process(), await process()]
    const clientInfo = { name: 'c', version: '1' }
    const hello = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
    const first = await post(a.url, rpc('initialize', hello))
    const headers = { ...LEGACY, 'mcp-session-id': first.headers.get('mcp-session-id') }
    await first.text()
    const second = await post(b.url, rpc('tools/call', {}, 2), headers)
    return (await answered(second)).result.session === 'own-2' && begun.length === 2
  },

  async tasks({ mcpStreams, tasks }) {
    const work = gate()
    const { url } = await serve(mcpStreams({ tasks: tasks({ after: 0 }) }), async (req, res) => {
      const { id, method } = await messageIn(req)
      if (method === 'server/discover')
        return json(res, result(id, { supportedVersions: [MODERN], capabilities: { tools: {} } }))
      await work.opened
      json(res, result(id, { content: [], resultType: 'complete' }))
    })
    const send = async (method, params, name) => {
      const _meta = {
        'io.modelcontextprotocol/protocolVersion': MODERN,
        'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': DECLARED
      }
      const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': method, 'mcp-name': name }
      return (await answered(await post(url, rpc(method, { ...params, _meta }), headers))).result
    }
    const { resultType, taskId } = await send('tools/call', { name: 'report' }, 'report')
    work.open()
    let task
    do task = await send('tasks/get', { taskId }, taskId)
    while (task.status === 'working')
    return resultType === 'task' && task.status === 'completed'
  },

  /** A stream of one instance is read at another. */
  async backplane({ mcpStreams, backplane }) {
    const listeners = new Map()
    const keys = new Map()
    const end = () => ({
      secrets: [SECRET],
      lease: 6000,
      dropped: 0,
      send: (channel, message) => {
        const copy = Uint8Array.from(message)
        setImmediate(() => listeners.get(channel)?.forEach(listener => listener(copy)))
      },
      listen: async (channel, listener) => {
        const set = listeners.get(channel) ?? new Set()
        listeners.set(channel, set.add(listener))
        return () => set.delete(listener)
      },
      command: async ([name, key, value, , , condition]) => {
        if (name === 'ID') return 'hub'
        if (name === 'GET') return keys.get(key) ?? null
        if (name === 'DEL') return Number(keys.delete(key))
        if (condition === 'NX' && keys.has(key)) return null
        keys.set(key, Uint8Array.from(value))
        return 'OK'
      },
      onUp: listener => {
        listener(true)
        return () => {}
      },
      renew: () => {}
    })
    const work = gate()
    const instance = () =>
      serve(mcpStreams({ backplane: backplane(end()), retry: 1 }), slow(work.opened))
    const [a, b] = [await instance(), await instance()]
    const response = await post(a.url, rpc('tools/call'), LEGACY)
    const link = /<(.*)>/.exec(response.headers.get('link'))[1]
    await readUntil(response, 'begun')
    const followed = await fetch(new URL(link, b.url), { headers: { accept: 'text/event-stream' } })
    work.open()
    return /"begun"[^]*"done":true/.test(await followed.text())
  },

  /** Without a Redis: what it is given is looked at, and the middleware takes what it gives. */
  async redis({ mcpStreams, redisBackplane }) {
    try {
      redisBackplane({ client: { duplicate: () => undefined }, secret: 'short' })
    } catch (error) {
      return error instanceof TypeError && typeof mcpStreams === 'function'
    }
    return false
  },

  async resources({ mcpStreams, fileResources, resources }, { folder }) {
    const options = { resources: resources(fileResources(folder, { baseUri: 'files:///' })) }
    const { url } = await serve(mcpStreams(options), named('endpoint'))
    const capabilities = { 'io.modelcontextprotocol/clientCapabilities': { resourceStreaming: {} } }
    const params = { uri: 'files:///note.txt', _meta: capabilities }
    const head = { accept: '*/*', range: 'bytes=2-4' }
    const response = await post(url, rpc('resources/stream', params), head)
    return response.status === 206 && (await response.text()) === 'llo'
  },

  /** What a client has begun with a header, a page reads on with the cookie alone. */
  async cookie({ mcpStreams, ownerCookie }) {
    const options = {
      owner: req => req.headers.authorization,
      cookie: ownerCookie({ secret: SECRET })
    }
    const { url } = await serve(mcpStreams(options), slow())
    const response = await post(url, rpc('tools/call'), { ...LEGACY, authorization: 'Bearer a' })
    await response.text()
    const target = new URL(/<(.*)>/.exec(response.headers.get('link'))[1], url)
    const [cookie] = response.headers.get('set-cookie').split(';')
    const read = async headers => (await fetch(target, { headers })).text()
    return /"done":true/.test(await read({ cookie })) && !/"done":true/.test(await read({}))
  },

  /** Two wires, the first of which is cut while the call runs. */
  async wires({ mcpStreams, resumableTransport, reconnectingTransport }) {
    const streams = mcpStreams({ resumeInterval: { min: 0.01 } })
    openServers.push(() => streams.close({ drain: 0 }))
    const work = gate()
    const wires = []
    let calls = 0
    const nextWire = () => {
      const [here, there] = pair()
      wires.push(here)
      const server = resumableTransport(there, streams)
      server.onmessage = async message => {
        if (message.method === 'initialize') {
          const serverInfo = { name: 's', version: '1' }
          const value = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }
          await server.send(result(message.id, value))
        } else if (message.method === 'tools/call') {
          calls++
          await work.opened
          await server.send(result(message.id, { done: true }))
        }
      }
      void server.start()
      return here
    }
    const client = reconnectingTransport(nextWire, { minTimeout: 1 })
    const answers = new Map()
    client.onmessage = message => answers.get(message.id)?.(message)
    await client.start()
    const ask = message =>
      new Promise(resolve => {
        answers.set(message.id, resolve)
        void client.send(message)
      })
    const clientInfo = { name: 'c', version: '1' }
    await ask(rpc('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }, 0))
    await client.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
    const answer = ask(rpc('tools/call', { name: 'work' }, 1))
    while (calls === 0) await new Promise(setImmediate)
    await wires[0].close()
    while (wires.length < 2) await new Promise(resolve => setTimeout(resolve, 1))
    work.open()
    const { result: value } = await answer
    await client.close()
    return value.done === true && calls === 1
  },

  async inspector({ mcpStreams, inspector }) {
    const streams = mcpStreams()
    const page = inspector(streams)
    const server = createServer((req, res) => page(req, res, () => res.writeHead(404).end()))
    const url = await listening(server)
    openServers.push(async () => {
      await streams.close({ drain: 0 })
      server.close()
      server.closeAllConnections()
    })
    const text = await (await fetch(url)).text()
    const events = await readUntil(await fetch(`${url}/events`), 'data: {"at":')
    return /<title>Inspector/.test(text) && events !== ''
  },

  /** Its connection is cut before the answer. */
  async client({ mcpStreams, resumableFetch }) {
    const work = gate()
    const { url, server } = await serve(mcpStreams({ retry: 1 }), slow(work.opened))
    const sockets = []
    server.on('connection', socket => sockets.push(socket))
    const resumable = resumableFetch({ minTimeout: 1 })
    const response = await resumable(url, {
      method: 'POST',
      headers: {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        ...LEGACY
      },
      body: JSON.stringify(rpc('tools/call'))
    })
    let text = ''
    for await (const bytes of response.body) {
      text += Buffer.from(bytes).toString()
      if (!text.includes('begun') || work.isOpen) continue
      work.isOpen = true
      server.once('request', work.open)
      for (const socket of sockets) socket.resetAndDestroy()
    }
    return text.split('begun').length === 2 && /"done":true/.test(text)
  },

  async clientNode({ mcpStreams, fileResources, resources, saveResource }, { folder }) {
    const options = { resources: resources(fileResources(folder, { baseUri: 'files:///' })) }
    const { url } = await serve(mcpStreams(options), named('endpoint'))
    const path = join(folder, 'saved.txt')
    await saveResource(url, 'files:///note.txt', path)
    return (await readFile(path, 'utf8')) === 'Hello'
  }
}

/** Both ends of a wire. */
function pair() {
  const end = () => ({
    async start() {},
    async send(message) {
      const copy = JSON.parse(JSON.stringify(message))
      setImmediate(() => this.other.onmessage?.(copy))
    },
    async close() {
      if (this.isClosed) return
      this.isClosed = true
      this.onclose?.()
      await this.other.close()
    }
  })
  const [here, there] = [end(), end()]
  return [Object.assign(here, { other: there }), Object.assign(there, { other: here })]
}

/** Prints of each entry point whether it did its job. */
export async function exerciseDoors(doors) {
  const folder = await mkdtemp(join(tmpdir(), 'doors-'))
  await writeFile(join(folder, 'note.txt'), 'Hello')
  const done = {}
  for (const [name, job] of Object.entries(jobs)) {
    try {
      done[name] = await job(doors, { folder })
    } catch (error) {
      done[name] = error.stack
    }
  }
  for (const close of openServers) await close()
  await rm(folder, { recursive: true })
  console.log(JSON.stringify(done))
}
