// What happens on the wire, in words: a line for each request of the call, and one for each
// connection that ends.

/** A `fetch` that tells of what it does for the call; the handshake is left out. */
export function watchedFetch(tell) {
  return async (url, init) => {
    const request = inWords(url, init)
    try {
      const response = await fetch(url, init)
      if (request) tell(`${request.padEnd(44)} ${outcome(response)}`, response)
      return response
    } catch (error) {
      if (request) tell(`${request.padEnd(44)} lost`)
      throw error
    }
  }
}

/** What `resumableFetch` tells before it comes back. */
export function reconnectionInWords({ reason, delay }) {
  const what = reason === 'end' ? 'The connection has ended' : 'The connection is lost'
  return `${what}: back in ${Math.round(delay)} ms`
}

function inWords(url, { method, body }) {
  const { search } = new URL(url)
  if (method === 'DELETE') return undefined
  if (search === '')
    return body?.includes('"tools/call"') ? `${method} /mcp  tools/call` : undefined
  const answers = typeof body === 'string' ? JSON.parse(body).length : 0
  return `${method} /mcp${short(search)}${answers > 0 ? `  [${answers} answer]` : ''}`
}

function outcome({ status, headers }) {
  if (status === 204) return '204: the server waits for you'
  const target = /<([^>]*)>; rel="stream"/.exec(headers.get('link'))?.[1]
  return `${status}${target ? `, link: ${short(target)}` : ''}`
}

/** Stream ids are long, and the same for all of a call. */
const short = search => search.replace(/(stream=[\w-]{4})[\w-]{17}/, '$1…')
