// MCP by hand, as far as this page needs it: a session, requests with events on the way, answers.

const REVISION = '2025-11-25'

/** @param fetch what the requests are made with: the browser's own, or `resumableFetch()` */
export function connectTo(url, fetch) {
  let session
  let lastId = 0

  async function post(message, signal, headers = {}) {
    const accept = {
      Accept: 'application/json, text/event-stream',
      'Content-Type': 'application/json'
    }
    const body = JSON.stringify({ jsonrpc: '2.0', ...message })
    return fetch(url, { method: 'POST', headers: { ...accept, ...headers }, body, signal })
  }

  async function openSession(signal) {
    const clientInfo = { name: 'playground', version: '1.0.0' }
    const params = { protocolVersion: REVISION, capabilities: { elicitation: {} }, clientInfo }
    const response = await post({ id: ++lastId, method: 'initialize', params }, signal)
    for await (const { message } of eventsOf(response)) if (message?.result) break
    const headers = {
      'Mcp-Session-Id': response.headers.get('mcp-session-id'),
      'MCP-Protocol-Version': REVISION
    }
    await post({ method: 'notifications/initialized' }, signal, headers)
    return headers
  }

  /** The headers of the session, which is opened once. */
  async function connect(signal) {
    session ??= await openSession(signal)
    return session
  }

  return {
    connect,

    /** Resolves with the result. Without one when the stream ends, the call is lost. */
    async call(method, params, { signal, onEvent }) {
      const headers = await connect(signal)
      const id = ++lastId
      const response = await post(
        { id, method, params: { ...params, _meta: { progressToken: id } } },
        signal,
        headers
      )
      if (response.status === 404) session = undefined
      if (!response.ok) throw new Error(`HTTP ${response.status}`)
      for await (const event of eventsOf(response)) {
        onEvent(event)
        const { message } = event
        if (message?.id !== id || message.method !== undefined) continue
        if (message.error) throw new Error(message.error.message)
        return message.result
      }
      throw new Error('the connection ended before the result')
    },

    answer: (id, result, signal) => post({ id, result }, signal, session)
  }
}

/** Server-sent events: `{ id, message }`. Ours have line feeds only, and one line of data. */
async function* eventsOf(response) {
  let rest = ''
  for await (const chunk of chunksOf(response.body.pipeThrough(new TextDecoderStream()))) {
    const blocks = (rest + chunk).split('\n\n')
    rest = blocks.pop()
    for (const block of blocks) {
      const field = name => new RegExp(`^${name}: ?(.*)$`, 'm').exec(block)?.[1]
      const [id, data, type = 'message'] = ['id', 'data', 'event'].map(field)
      const message = type === 'message' && data ? JSON.parse(data) : undefined
      if (id || message) yield { id, message }
    }
  }
}

/** A stream of the browser, read piece by piece, and given up where the reader stops. */
async function* chunksOf(stream) {
  const reader = stream.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}
