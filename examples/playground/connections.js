/* global document */
// Connections as the page sees them: a span for each, a span for each wait, and a line of each in
// the log.

/** A `fetch` whose connections are seen, from the request to the end of the body. */
export function watched(side) {
  return async (url, init = {}) => {
    const { run } = side
    if (!run || run.end || init.method === 'DELETE') return fetch(url, init)
    const entry = log(side, requestInWords(url, init))
    const ended = openSpan(run, init.method ?? 'GET')
    try {
      const response = await fetch(url, init)
      run.heard = performance.now()
      entry.textContent += ` → ${response.status}`
      if (response.status === 204) {
        ended()
        // It asks again from time to time, and hears the same.
        run.turn ??= addSpan(run, 'turn', '204: nothing held')
        return response
      }
      const seen = seenBody(response.body, ended, count => {
        run.heard = performance.now()
        run.onBytes?.(count)
      })
      return Object.defineProperty(new Response(seen, response), 'url', { value: response.url })
    } catch (error) {
      ended()
      entry.textContent += ' → lost'
      throw error
    }
  }
}

/** Hears of reconnections, those of `resumableFetch` and of `streamResource`. */
export function wait(side, { delay, reason, lastEventId, received }) {
  const { run } = side
  if (!run || run.end) return
  const from = performance.now()
  const rounded = `${Math.round(delay)} ms`
  run.spans.push({ from, to: from + delay, kind: 'wait', label: rounded })
  const place = received
    ? `byte ${received}`
    : lastEventId
      ? `event ${lastEventId.match(/^[\w-]+(?:\.r\d+)?\.(\d+)/)[1]}`
      : 'the start'
  log(side, `↻ ${reason}: back in ${rounded}, goes on after ${place}`)
}

export function addSpan(run, kind, label) {
  const span = { from: performance.now(), to: undefined, kind, label }
  run.spans.push(span)
  return span
}

export function endSpan(span) {
  if (span) span.to ??= performance.now()
}

/** In a handle, because silence on the wire ends the span, and another one takes its place. */
function openSpan(run, method) {
  run.connections++
  if (method === 'POST') {
    endSpan(run.turn)
    run.turn = undefined
  }
  const handle = { span: addSpan(run, 'connection', method) }
  run.open.add(handle)
  return () => {
    run.open.delete(handle)
    endSpan(handle.span)
  }
}

function seenBody(body, ended, onBytes) {
  const reader = body.getReader()
  const pull = async controller => {
    try {
      const { done, value } = await reader.read()
      if (done) return void (ended(), controller.close())
      onBytes(value.length)
      controller.enqueue(value)
    } catch (error) {
      ended()
      controller.error(error)
    }
  }
  const cancel = reason => {
    ended()
    return reader.cancel(reason)
  }
  return new ReadableStream({ pull, cancel }, { highWaterMark: 0 })
}

/** Stream ids are long, and the same for all of a call. */
function requestInWords(url, { method = 'GET', body, headers }) {
  const place = new URL(url).search.replace(/(stream=.{4})[^~&]*/, '$1…')
  const message = typeof body === 'string' ? JSON.parse(body) : undefined
  const what = message && (message.method ?? 'your answer')
  const given = new Headers(headers)
  const cursor = given.get('last-event-id')?.replace(/^[\w-]+\.(r\d+\.)?/, '')
  return [method, `/mcp${place}`, what, cursor && `after ${cursor}`, given.get('range')]
    .filter(Boolean)
    .join(' ')
}

function log(side, line) {
  const entry = document.createElement('li')
  const at = ((performance.now() - side.run.start) / 1000).toFixed(1)
  entry.textContent = `${at.padStart(4)} s ${line}`
  const list = side.part('log')
  // A user who has scrolled up is reading.
  const isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 4
  list.append(entry)
  if (isAtEnd) list.scrollTop = list.scrollHeight
  return entry
}
