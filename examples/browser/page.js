/* global document, EventSource, window */
// In the page: a call by `fetch`, and its stream followed by the browser's own `EventSource`.

const { mcp, token } = document.documentElement.dataset

/** Where a response's stream goes on: the link with the relation type `stream`. */
export function streamUrl(response) {
  const [, target] =
    /<([^>]*)>[^,]*;\s*rel="?stream"?/.exec(response.headers.get('Link') ?? '') ?? []
  return target === undefined ? undefined : new URL(target, response.url)
}

const call = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'count', arguments: {} }
}

async function start() {
  const response = await fetch(mcp, {
    method: 'POST',
    credentials: 'include', // the answer sets the cookie
    body: JSON.stringify(call),
    headers: {
      Accept: 'application/json, text/event-stream',
      Authorization: `Bearer ${token}`,
      'Content-Type': 'application/json',
      'MCP-Protocol-Version': '2025-11-25'
    }
  })
  const url = streamUrl(response)
  show(`POST: ${response.status}, its stream is ${url === undefined ? 'not kept' : 'kept'}`)
  // As if the wire had been cut: the call runs on.
  await response.body.cancel()
  follow(url)
}

/** The browser sends the cookie, its own `Last-Event-ID`, waits for `retry`, and stops at the 204. */
function follow(url) {
  const source = new EventSource(url, { withCredentials: true })
  source.onmessage = ({ data }) => {
    if (data === '') return // a primer: an id without a message
    const { params, result } = JSON.parse(data)
    if (params !== undefined) show(`EventSource: ${params.data}`)
    if (result === undefined) return
    show(`✔ ${result.content[0].text}`)
    source.close()
  }
  source.onerror = () => show('EventSource: connection lost, it comes back by itself')
}

function show(line) {
  const item = document.createElement('li')
  item.textContent = line
  document.querySelector('#log').append(item)
}

document.querySelector('button').addEventListener('click', () => {
  document.querySelector('#log').replaceChildren()
  start().catch(error => show(`✘ ${error.message}`))
})
window.addEventListener('load', () => show('Ready'))
