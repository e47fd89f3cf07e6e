// When a stream cannot go on: one error, for the body and for each call that still waits. And bad
// input, which ends there.

import { describe, expect, it } from '@jest/globals'
import { pipeline } from 'node:stream/promises'
import { ResumptionError } from '../../../lib/client/index.js'
import {
  block,
  acquainted,
  cut,
  fetchOnce,
  greeting,
  LINK,
  note,
  open,
  POST,
  readAll,
  reset,
  response,
  scripted,
  status,
  whole,
  type ServerAnswer
} from './scripted.js'

/** The errors in a text, by request id. */
const errorsIn = (text: string): unknown[] =>
  [...text.matchAll(/^data: (\{.*"error".*\})$/gm)].map(([, json = '']) => JSON.parse(json))

const CALL_OF_TWO = JSON.stringify([
  { jsonrpc: '2.0', id: 'a', method: 'x' },
  { jsonrpc: '2.0', id: 2, method: 'y' }
])

describe('a stream that cannot be resumed', () => {
  it.each<[code: string, answer: ServerAnswer, cause: string]>([
    ['stream-unknown', status(404), 'HTTP 404'],
    ['events-evicted', status(410), 'HTTP 410'],
    ['refused', status(400), 'HTTP 400'],
    ['refused', status(403), 'HTTP 403'],
    ['refused', status(405), 'HTTP 405'],
    ['refused', status(302, { Location: '/elsewhere' }), 'HTTP 302'],
    ['no-response', status(204), 'HTTP 204']
  ])('fails its body with the error %s', async (code, answer, cause) => {
    const { url, requests } = await scripted(cut(note('1', 1)), answer)
    const { text, error } = await readAll(await fetchOnce(url, {}, { ...POST, body: CALL_OF_TWO }))
    expect(error).toBeInstanceOf(ResumptionError)
    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject({ name: 'ResumptionError', code, streamUrl: `${url}?stream=S` })
    const { message, cause: given } = error as ResumptionError
    expect(message).toBe(`The stream cannot go on: ${code.replace('-', ' ')}: ${cause}`)
    expect((given as Error).message).toBe(cause)
    expect(text.startsWith(note('1', 1))).toBe(true)
    expect(errorsIn(text)).toEqual([
      { jsonrpc: '2.0', id: 'a', error: { code: -31000, message, data: { reason: code } } },
      { jsonrpc: '2.0', id: 2, error: { code: -31000, message, data: { reason: code } } }
    ])
    expect(requests.length).toBe(2)
  })

  it('does not fail a request that already has its response', async () => {
    const first = block('1', '{"jsonrpc":"2.0","id":"a","result":{}}')
    const { url } = await scripted(cut(first), status(404))
    const { text } = await readAll(await fetchOnce(url, {}, { ...POST, body: CALL_OF_TWO }))
    expect(errorsIn(text)).toEqual([expect.objectContaining({ id: 2 })])
  })

  it('fails with the cause of the last attempt once maxRetries is reached', async () => {
    const { url, requests } = await scripted(cut(note('1', 1)), status(500), reset, status(503))
    const { error } = await readAll(await fetchOnce(url, { maxRetries: 3 }))
    expect(error).toMatchObject({ code: 'retries-exhausted', cause: { message: 'HTTP 503' } })
    expect(requests.length).toBe(4)
  })

  it('fails with the error of the network as its cause', async () => {
    const { url } = await scripted(cut(note('1', 1)), reset)
    const { error } = await readAll(await fetchOnce(url, { maxRetries: 1 }))
    expect((error as ResumptionError).cause).toMatchObject({ name: 'TypeError' })
  })

  it('fails with a cause also where each connection ends without an error', async () => {
    const { url } = await scripted(whole(note('1', 1)), whole(': nothing new\n\n'))
    const { text, error } = await readAll(await fetchOnce(url, { maxRetries: 1 }))
    const why = 'The connection ended early'
    expect(error).toMatchObject({ code: 'retries-exhausted', cause: { message: why } })
    const message = `The stream cannot go on: retries exhausted: ${why}`
    expect(errorsIn(text)).toMatchObject([{ error: { message } }])
  })

  it('makes no attempt where maxRetries is 0', async () => {
    const { url, requests } = await scripted(cut(note('1', 1)))
    const { error } = await readAll(await fetchOnce(url, { maxRetries: 0 }))
    expect(error).toMatchObject({ code: 'retries-exhausted' })
    expect(requests.length).toBe(1)
  })

  it.each([200, 408, 425, 429, 500, 502, 503, 504, 521])(
    'takes %d for a passing trouble',
    async code => {
      const { url } = await scripted(cut(note('1', 1)), status(code), whole(response('2')))
      expect((await readAll(await fetchOnce(url))).error).toBeUndefined()
    }
  )

  it('gives its error to both branches of a body that was teed', async () => {
    const { url } = await scripted(cut(note('1', 1)), status(404))
    const { body } = await fetchOnce(url)
    const [one, two] = body!.tee()
    const texts = await Promise.all([one, two].map(each => readAll(new Response(each))))
    for (const { text, error } of texts) {
      expect(errorsIn(text)).toHaveLength(1)
      expect(error).toBeInstanceOf(ResumptionError)
    }
  })
})

describe('401 on a reconnection', () => {
  it('is tried once more with fresh headers', async () => {
    const { url, requests } = await scripted(cut(note('1', 1)), status(401), whole(response('2')))
    let token = 1
    const headers = () => Promise.resolve({ Authorization: `Bearer ${token++}` })
    expect((await readAll(await fetchOnce(url, { headers }))).error).toBeUndefined()
    expect(requests.map(request => request.headers.authorization)).toEqual([
      undefined,
      'Bearer 1',
      'Bearer 2'
    ])
  })

  it('is an error where the second attempt gets 401, too', async () => {
    const { url, requests } = await scripted(cut(note('1', 1)), status(401), status(401))
    const { text, error } = await readAll(await fetchOnce(url))
    expect(error).toMatchObject({ code: 'unauthorized', cause: { message: 'HTTP 401' } })
    expect(errorsIn(text)).toHaveLength(1)
    expect(requests.length).toBe(3)
  })

  it('is tried once more each time that it comes after a success', async () => {
    const { url } = await scripted(
      cut(note('1', 1)),
      status(401),
      cut(note('2', 2)),
      status(401),
      whole(response('3'))
    )
    expect((await readAll(await fetchOnce(url))).error).toBeUndefined()
  })
})

describe('a link', () => {
  it.each([
    ['to another origin', '<http://127.0.0.2/mcp?stream=S>; rel="stream"'],
    ['to another port', '<http://127.0.0.1:1/mcp?stream=S>; rel="stream"'],
    ['to another scheme', '<https://127.0.0.1/mcp?stream=S>; rel="stream"'],
    ['with a user name', '<//user:secret@127.0.0.1:PORT/mcp?stream=S>; rel="stream"'],
    ['to javascript:', '<javascript:alert(1)>; rel="stream"'],
    ['to data:', '<data:text/event-stream,data>; rel="stream"'],
    ['that is no URL', '<http://[>; rel="stream"'],
    ['with a quote that does not end', '<?stream=S>; rel="stream'],
    ['with a quote that does not end before it', '<?stream=S>; title="x; rel="stream"'],
    ['with a bracket that does not end', '<?stream=S; rel="stream"'],
    ['without brackets', '?stream=S; rel="stream"'],
    ['of another relation', '<?stream=S>; rel="next"'],
    ['of another relation, with ours in a title', '<?stream=S>; title="; rel=stream"; rel="next"'],
    ['of two relations, ours not among them', '<?stream=S>; rel="next streams"'],
    ['whose second rel is ours', '<?stream=S>; rel="next"; rel="stream"'],
    ['without relation', '<?stream=S>'],
    ['of nothing', '']
  ])('%s leaves the response untouched', async (_name, link) => {
    const { url, requests } = await scripted((res, req) =>
      cut(note('1', 1), { Link: link.replace('PORT', String(req.socket.localPort)) })(res, req)
    )
    const { text, error } = await readAll(await fetchOnce(url))
    expect(text).toBe(note('1', 1))
    expect(error).toMatchObject({ name: 'TypeError' })
    expect(requests.length).toBe(1)
  })

  it.each([
    ['alone', LINK],
    ['after another', `</docs>; rel="help", ${LINK}`],
    ['before another', `${LINK}, </docs>; rel="help"`],
    [
      'after one whose title has all that separates',
      `</docs>; title="a, <b>; rel=stream; \\""; rel="help", ${LINK}`
    ],
    ['after one that cannot be read', `</docs>; title="a, ${LINK.replaceAll('"', '')}`],
    ['among other relations', '<?stream=S>; rel="self  STREAM"'],
    ['without quotes', '<?stream=S>;rel=stream'],
    [
      'with other parameters',
      '<?stream=S>; title="x"; title*=UTF-8\'\'%e2; rel="stream"; type="a/b"'
    ],
    ['with parameters without a value', '<?stream=S>; crossorigin; rel=stream'],
    ['absolute', 'ABSOLUTE']
  ])('%s is followed', async (_name, link) => {
    let origin = ''
    const server = await scripted(
      (res, req) => {
        const Link = link === 'ABSOLUTE' ? `<${origin}/mcp?stream=S>; rel="stream"` : link
        return cut(note('1', 1), { Link })(res, req)
      },
      whole(response('2'))
    )
    origin = new URL(server.url).origin
    expect((await readAll(await fetchOnce(server.url))).text).toBe(note('1', 1) + response('2'))
    expect(server.requests[1]?.url).toBe('/mcp?stream=S')
  })

  // In any but linear time, the spec does not end.
  it.each([
    ['without a target', `${'<>'.repeat(500_000)}"`],
    ['with empty parameters', '<a>;'.repeat(250_000)],
    ['with quotes that are left open', `<a>;${' rel = "'.repeat(125_000)}`]
  ])('of a megabyte is read: %s', async (_name, Link) => {
    const answer = () => {
      const body = new ReadableStream({
        start: controller => controller.enqueue(Buffer.from(note('1', 1))),
        pull: controller => controller.error(new Error('cut'))
      })
      const headers = { 'Content-Type': 'text/event-stream', Link }
      return Promise.resolve(new Response(body, { headers }))
    }
    const { error } = await readAll(
      await fetchOnce('http://x/mcp', { fetch: answer, maxRetries: 0 })
    )
    expect(error).toBeDefined()
  })
})

describe('credentials across redirects and links', () => {
  const secret = {
    ...POST,
    headers: { ...POST.headers, Authorization: 'Bearer secret', 'X-Api-Key': 'secret' }
  }

  it('are not sent where a stream URL redirects to another origin', async () => {
    const thief = await scripted(whole(response('2')))
    const { url } = await scripted(
      cut(note('1', 1)),
      status(307, { Location: `${thief.url}?stream=S` })
    )
    const { error } = await readAll(await fetchOnce(url, {}, secret))
    expect(error).toMatchObject({ code: 'refused' })
    expect(thief.requests.length).toBe(0)
  })

  it('are not sent to the link of another origin that the call was redirected to', async () => {
    const other = await scripted(cut(note('1', 1)), whole(response('2')))
    const { url } = await scripted(status(307, { Location: other.url }))
    const { error } = await readAll(await fetchOnce(url, {}, secret))
    expect(error).toMatchObject({ name: 'TypeError' })
    // `fetch` itself takes off what it knows to be a secret.
    expect(other.requests.map(({ headers }) => headers.authorization)).toEqual([undefined])
  })

  it('are sent to the link of the same origin after a redirect', async () => {
    const { url, requests } = await scripted(
      status(307, { Location: '/other/mcp?a=1' }),
      cut(note('1', 1)),
      whole(response('2'))
    )
    const answer = await fetchOnce(url, {}, secret)
    expect(answer.url).toBe(new URL('/other/mcp?a=1', url).href)
    await readAll(answer)
    expect(requests[2]).toMatchObject({
      url: '/other/mcp?stream=S',
      headers: { authorization: 'Bearer secret' }
    })
  })
})

describe('a malicious server', () => {
  it('cannot fill the memory with an endless event', async () => {
    let written = 0
    function* endless(): Generator<Buffer> {
      for (; written < 64 * 1024 * 1024; written += 64 * 1024) yield Buffer.alloc(64 * 1024, 'x')
    }
    const { url, requests } = await scripted((res, req) => {
      open('data: ')(res, req)
      pipeline(endless, res).catch(() => undefined)
    }, status(204))
    const { text, error } = await readAll(await fetchOnce(url, { maxEventSize: 1024 * 1024 }))
    expect(error).toMatchObject({
      code: 'event-too-large',
      message: 'The stream cannot go on: event too large'
    })
    expect(errorsIn(text)).toHaveLength(1)
    expect(written).toBeLessThan(16 * 1024 * 1024)
    // And it hears that nobody wants the rest.
    await requests[0]!.closed
    expect((await requests.nth(2)).method).toBe('DELETE')
  })

  it('may send an event id of a megabyte: it is sent back, refused, and the call fails', async () => {
    const id = 'x'.repeat(1024 * 1024)
    const { url, requests } = await scripted(whole(note(id, 1)))
    const { text, error } = await readAll(await fetchOnce(url))
    expect(text.startsWith(note(id, 1))).toBe(true)
    expect(error).toBeInstanceOf(ResumptionError)
    expect(['refused', 'retries-exhausted']).toContain((error as ResumptionError).code)
    expect(requests.length).toBe(1)
  })

  it.each([
    ['that no header can carry', '漢'],
    ['that ends a header', 'x\u000bX: y']
  ])('that sends an event id %s makes the stream end with an error', async (_name, id) => {
    const { url } = await scripted(cut(note(id, 1)))
    const { error } = await readAll(await fetchOnce(url, { maxRetries: 2 }))
    expect(error).toBeInstanceOf(ResumptionError)
  })

  it('that sends an event id outside of Latin-1 gets it back in UTF-8', async () => {
    const { url, requests } = await scripted(cut(note('漢€', 1)), whole(response('2')))
    expect((await readAll(await fetchOnce(url))).error).toBeUndefined()
    const sent = requests[1]?.headers['last-event-id'] as string
    expect(Buffer.from(sent, 'latin1').toString()).toBe('漢€')
  })

  it('that sends an event id with a control character is resumed without an id', async () => {
    const { url, requests } = await scripted(cut(note('x\u000bX: y', 1)), whole(response('2')))
    expect((await readAll(await fetchOnce(url))).error).toBeUndefined()
    expect(requests[1]?.headers).not.toHaveProperty('last-event-id')
  })

  it('cannot fill the memory with an endless JSON body: it is passed on to its reader', async () => {
    let written = 0
    function* endless(): Generator<Buffer> {
      for (; written < 64 * 1024 * 1024; written += 64 * 1024) yield Buffer.alloc(64 * 1024, ' ')
    }
    const { url, requests } = await scripted(greeting, res => {
      res.writeHead(200, { 'Content-Type': 'application/json' })
      pipeline(endless, res).catch(() => undefined)
    })
    const fetch = await acquainted(url, { maxEventSize: 1024 * 1024 })
    const reader = (await fetch(url, POST)).body!.getReader()
    let read = 0
    while (read < 2 * 1024 * 1024) read += (await reader.read()).value!.length
    await reader.cancel()
    await requests[1]!.closed
    expect(written).toBeLessThan(16 * 1024 * 1024)
  })

  it('that sends an event id with a NULL has it ignored, as the HTML standard says', async () => {
    const { url, requests } = await scripted(
      cut(note('1', 1) + note('2\0', 2)),
      whole(response('3'))
    )
    await readAll(await fetchOnce(url))
    expect(requests[1]?.headers['last-event-id']).toBe('1')
  })

  it('may reset the last event id with an empty one', async () => {
    const { url, requests } = await scripted(
      cut(`${note('1', 1)}id\ndata: x\n\n`),
      whole(response('3'))
    )
    await readAll(await fetchOnce(url))
    expect(requests[1]?.headers).not.toHaveProperty('last-event-id')
  })

  it.each(['1000000000000', '99999999999999999999', `1${'0'.repeat(400)}`])(
    'may ask for a retry of %s',
    async retry => {
      const { url, requests } = await scripted(cut(`retry: ${retry}\n\n`), whole(response('1')))
      const delays: number[] = []
      const options = {
        maxTimeout: 15,
        onReconnect: ({ delay }: { delay: number }) => delays.push(delay)
      }
      expect((await readAll(await fetchOnce(url, options))).error).toBeUndefined()
      expect(delays).toEqual([15])
      expect(requests.length).toBe(2)
    }
  )

  it.each(['-1', '1.5', '0x10', 'soon', ''])(
    'may ask for a retry of %j, which is none',
    async retry => {
      const { url } = await scripted(cut(`retry: 3\n\nretry: ${retry}\n\n`), whole(response('1')))
      const delays: number[] = []
      await readAll(await fetchOnce(url, { onReconnect: ({ delay }) => delays.push(delay) }))
      expect(delays).toEqual([3])
    }
  )
})
