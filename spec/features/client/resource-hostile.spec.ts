// Servers that mean harm, or are broken: bodies that lie, URLs that lead astray, names that would
// write elsewhere.

import { describe, expect, it, jest } from '@jest/globals'
import { getEventListeners } from 'node:events'
import { gate } from '../../helpers/gate.js'
import {
  broken,
  bytesOf,
  direct,
  download,
  drain,
  FAST,
  HEAD,
  outcome,
  ranged,
  redirect,
  RESOURCE,
  server,
  status,
  stream,
  TAG,
  type Answer
} from './resource-server.js'
import { streamResource, type FetchLike } from '../../../lib/client/index.js'

const BYTES = bytesOf(10_000)

/** Sends for as long as anybody listens. */
const endless =
  (headers: Record<string, string> = HEAD, chunk = Buffer.alloc(65_536, 'x')): Answer =>
  res => {
    res.writeHead(200, headers)
    const more = (): void => {
      while (!res.destroyed && res.write(chunk));
    }
    res.on('drain', more)
    more()
  }

describe('the body of a streamed resource', () => {
  it('is not read where its Content-Length is above maxStreamSize', async () => {
    const { url, requests } = await server(endless({ ...HEAD, 'Content-Length': '1000000' }))
    await expect(stream(url, { maxStreamSize: 999_999 })).rejects.toMatchObject({
      code: 'too-large'
    })
    await requests[0]!.closed
  })

  it('is read where it has exactly maxStreamSize bytes', async () => {
    const { url } = await server(direct(BYTES))
    expect(await outcome(url, { maxStreamSize: BYTES.length })).toBeUndefined()
  })

  it('is cut off at maxStreamSize where it is endless', async () => {
    const { url, requests } = await server(endless())
    const { bytes, error } = await drain(await stream(url, { maxStreamSize: 1e6 }))
    expect(error).toMatchObject({ code: 'too-large' })
    expect(bytes.length).toBeLessThanOrEqual(1e6)
    await requests[0]!.closed
  })

  it('is not read faster than its reader takes it', async () => {
    const { url, requests } = await server(endless())
    const { stream: body } = await stream(url)
    const reader = body.getReader()
    await reader.read()
    await new Promise(resolve => setTimeout(resolve, 100))
    const socket = requests[0]!.req.socket
    const sent = socket.bytesWritten
    await new Promise(resolve => setTimeout(resolve, 100))
    expect(socket.bytesWritten).toBe(sent)
    await reader.cancel()
    await requests[0]!.closed
  })

  it('is refused where it is larger than announced with the download URL', async () => {
    const other = await server(
      direct(BYTES),
      res => res.writeHead(200, HEAD).end(BYTES),
      res => res.writeHead(200, HEAD).end(BYTES.subarray(0, 10))
    )
    const pointer = download(`${other.origin}/1`, { size: 9999 })
    const { url } = await server(pointer, pointer, pointer)
    const options = { trustedOrigins: [other.origin] }
    expect(await outcome(url, options)).toMatchObject({ code: 'wrong-size' })
    expect(await outcome(url, options)).toMatchObject({ code: 'wrong-size' })
    expect(await outcome(url, options)).toMatchObject({ code: 'incomplete' })
  })

  it.each(['/*', `/${BYTES.length}`])(
    'larger than its own size is stopped there: %s',
    async total => {
      const tooMuch = bytesOf(2 * BYTES.length)
      const { url } = await server(broken(BYTES, 100), res =>
        res
          .writeHead(206, {
            ...HEAD,
            ...TAG,
            'Content-Range': `bytes 100-${tooMuch.length - 1}${total}`
          })
          .end(tooMuch.subarray(100))
      )
      const { bytes, error } = await drain(await stream(url))
      expect(error).toMatchObject({ code: 'wrong-size' })
      expect(bytes.length).toBeLessThanOrEqual(BYTES.length)
    }
  )

  it('is given up where it ends too early again and again', async () => {
    const nothing: Answer = (res, asked) => {
      res.on('error', () => undefined)
      return broken(BYTES, 0)(res, asked)
    }
    const { url } = await server(broken(BYTES, 100), nothing, nothing)
    const { bytes, error } = await drain(await stream(url, { maxRetries: 2 }))
    expect(error).toMatchObject({ code: 'retries-exhausted' })
    expect(bytes.length).toBe(100)
  })

  it('is not affected by bytes that come after it', async () => {
    const { url } = await server(res => {
      const head = `HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nMCP-Resource-Uri: ${RESOURCE}\r\n`
      res.socket!.end(`${head}Content-Length: 3\r\n\r\nabcdef`)
    })
    const { bytes, error } = await drain(await stream(url, { maxRetries: 0 }))
    if (error === undefined) expect(bytes.toString()).toBe('abc')
    else expect(error).toMatchObject({ name: 'ResourceStreamError' })
  })
})

describe('an HTTP response to resources/stream', () => {
  const html: Answer = res =>
    res.writeHead(200, { 'Content-Type': 'text/html' }).end('<h1>Log in</h1>')

  it.each<[string, Answer]>([
    ['a page of somebody else', html],
    ['a page without end', endless({ 'Content-Type': 'text/html' })],
    [
      'an event stream',
      res => res.writeHead(200, { 'Content-Type': 'text/event-stream' }).end('data: {}\n\n')
    ],
    ['nothing', res => res.writeHead(204).end()],
    ['accepted', res => res.writeHead(202).end()],
    ['no range, without having been asked for one', res => res.writeHead(416).end()],
    [
      'half of JSON',
      res => res.writeHead(200, { 'Content-Type': 'application/json' }).end('{"jsonrpc":')
    ],
    ['no object', res => res.writeHead(200, { 'Content-Type': 'application/json' }).end('null')],
    ['a result without a URL', download(undefined)],
    ['a result with a URL that is none', download(7)],
    [
      'an answer to another request',
      res =>
        res.writeHead(200, { 'Content-Type': 'application/json' }).end(
          JSON.stringify({
            jsonrpc: '2.0',
            id: 'other',
            result: { downloadUrl: 'https://x.example/' }
          })
        )
    ],
    ['JSON without end', endless({ 'Content-Type': 'application/json' })],
    ['a redirect to a login page', res => res.writeHead(302, { Location: '/login' }).end()],
    ['a redirect to nowhere', res => res.writeHead(302, { 'MCP-Resource-Uri': RESOURCE }).end()]
  ])('is not taken for a resource where it is %s', async (_name, answer) => {
    const { url, requests } = await server(answer, html)
    const error = await outcome(url)
    expect(error).toMatchObject({ name: 'ResourceStreamError' })
    expect((error as { code: string }).code).toMatch(/^(unexpected-answer|refused)$/)
    expect(requests).toHaveLength(1)
    await requests[0]!.closed
  })

  it('is not taken for a resource where a storage reports an error with status 200', async () => {
    const other = await server(res =>
      res.writeHead(200, { 'Content-Type': 'application/json' }).end('{"error":"x"}')
    )
    const { url } = await server(download(`${other.origin}/1`))
    expect(await outcome(url, { trustedOrigins: ['*'] })).toMatchObject({
      code: 'unexpected-answer'
    })
  })
})

describe('a URL that the server names', () => {
  it.each([
    ['of another origin', 'https://evil.example/1'],
    ['of another port', 'http://127.0.0.1:1/1'],
    ['without https', 'http://evil.example/1'],
    ['of a file', 'file:///etc/passwd'],
    ['with its bytes inside', 'data:application/pdf,x'],
    ['with a user', 'https://user:pass@127.0.0.1/1'],
    ['that is relative', '/1'],
    ['that is none', 'https://']
  ])('for a download is refused without a request where it is %s', async (_name, downloadUrl) => {
    const { url, requests } = await server(download(downloadUrl))
    expect(await outcome(url)).toMatchObject({ code: 'untrusted-url' })
    expect(requests).toHaveLength(1)
  })

  it('is refused without https, also where its origin is trusted', async () => {
    const { url } = await server(download('http://storage.example/1'))
    expect(await outcome(url, { trustedOrigins: ['*', 'http://storage.example'] })).toMatchObject({
      code: 'untrusted-url'
    })
  })

  it.each([
    ['of a file', 'file:///etc/passwd'],
    ['with its bytes inside', 'data:application/pdf,x'],
    ['with a user', 'https://user:pass@storage.example/1'],
    ['that is none', 'https://']
  ])('of a redirect is refused without a request where it is %s', async (_name, location) => {
    const { url } = await server(redirect(location))
    expect(await outcome(url)).toMatchObject({ code: 'untrusted-url' })
  })

  it('of a redirect must be of a trusted origin where the option names some', async () => {
    const storage = await server(direct(BYTES))
    const { url } = await server(redirect(`${storage.origin}/1`), redirect(`${storage.origin}/1`))
    expect(await outcome(url, { trustedOrigins: ['https://storage.example'] })).toMatchObject({
      code: 'untrusted-url'
    })
    expect(await outcome(url, { trustedOrigins: [storage.origin] })).toBeUndefined()
  })

  it('appears in errors by its origin only', async () => {
    const { url } = await server(download('https://storage.example/1?sig=secret'))
    expect(String(await outcome(url))).not.toContain('secret')
  })

  it('over https is never followed to one without', async () => {
    const asked: string[] = []
    const fetch: FetchLike = async input => {
      asked.push(String(input))
      return new Response(null, {
        status: 302,
        headers: { Location: 'http://a.example/', 'MCP-Resource-Uri': 'x:' }
      })
    }
    await expect(streamResource('https://a.example/mcp', 'x:', { fetch })).rejects.toMatchObject({
      code: 'untrusted-url'
    })
    expect(asked).toEqual(['https://a.example/mcp'])
  })

  it('is given up where it redirects endlessly', async () => {
    const again: Answer = redirect('/again')
    const { url, requests } = await server(...Array.from({ length: 20 }, () => again))
    expect(await outcome(url)).toMatchObject({ code: 'untrusted-url' })
    expect(requests.length).toBeLessThan(10)
  })

  it('of its own origin gets no credentials after a redirect by another origin', async () => {
    const credentials = { Authorization: 'Bearer mine' }
    const answers: Answer[] = []
    const mine = await server((...about) => answers[0]!(...about), ranged(BYTES))
    const storage = await server(redirect(`${mine.origin}/admin`))
    answers.push(redirect(`${storage.origin}/1`))
    await outcome(mine.url, { headers: credentials })
    expect(mine.requests[1]).toMatchObject({ method: 'GET', url: '/admin' })
    expect(mine.requests[1]!.headers).not.toHaveProperty('authorization')
  })

  it('of a redirect that the runtime hides, as browsers do, is not followed', async () => {
    const opaque = Object.defineProperty(new Response(null), 'type', { value: 'opaqueredirect' })
    const fetch: FetchLike = () => Promise.resolve(opaque)
    await expect(streamResource('https://a.example/mcp', 'x:', { fetch })).rejects.toMatchObject({
      code: 'untrusted-url'
    })
  })
})

describe('a file name in Content-Disposition', () => {
  it.each([
    ['attachment; filename="report.pdf"', 'report.pdf'],
    ['attachment; filename=report.pdf', 'report.pdf'],
    ['inline;FILENAME="a b; c.pdf" ; size=3', 'a b; c.pdf'],
    ['attachment; filename="\\"quoted\\".pdf"', '"quoted".pdf'],
    [`attachment; filename="x.pdf"; filename*=UTF-8''%E2%82%AC%20rates.pdf`, '€ rates.pdf'],
    [`attachment; filename*=UTF-8'de'%C3%BC.pdf; filename="u.pdf"`, 'ü.pdf'],
    [`attachment; filename="x.pdf"; filename*=UTF-8''%ff%`, 'x.pdf'],
    [`attachment; filename="; filename*=UTF-8''evil.exe"`, `; filename*=UTF-8''evil.exe`],
    ['attachment; filename="../../etc/passwd"', 'passwd'],
    [`attachment; filename*=UTF-8''..%2F..%2Fetc%2Fpasswd`, 'passwd'],
    ['attachment; filename="C:\\\\Windows\\\\evil.dll"', 'evil.dll'],
    [`attachment; filename*=UTF-8''a%00b%0D%0Ac%E2%80%AEfdp.exe`, 'abcfdp.exe'],
    ['attachment; filename=".."', undefined],
    ['attachment; filename="folder/"', undefined],
    ['attachment; filename=""', undefined],
    ['attachment', undefined],
    ['', undefined]
  ])('%j is read as %j', async (value, name) => {
    const { url } = await server(
      direct(BYTES, value === '' ? {} : { 'Content-Disposition': value })
    )
    const found = await stream(url)
    expect(found.name).toBe(name)
    await drain(found)
  })

  it('is read in linear time, however long it is: in any other, this does not end', async () => {
    const headers = {
      ...HEAD,
      'Content-Length': String(BYTES.length),
      'Content-Disposition': `a; filename="${'\\a'.repeat(500_000)}`
    }
    const fetch = () => Promise.resolve(new Response(BYTES, { headers }))
    const { bytes } = await drain(await stream('http://x/mcp', { fetch }))
    expect(bytes).toEqual(BYTES)
  })
})

describe('a Content-Type', () => {
  it('that is missing is taken for application/octet-stream', async () => {
    const { url } = await server(res =>
      res.writeHead(200, { 'MCP-Resource-Uri': RESOURCE }).end(BYTES)
    )
    const found = await stream(url)
    expect(found.mimeType).toBe('application/octet-stream')
    await drain(found)
  })
})

describe('an abort of streamResource', () => {
  const why = new Error('enough')

  it('before the request sends nothing', async () => {
    const { url, requests } = await server(direct(BYTES))
    await expect(stream(url, { signal: AbortSignal.abort(why) })).rejects.toBe(why)
    expect(requests).toHaveLength(0)
  })

  it('while the server is silent closes the connection', async () => {
    const { url, requests } = await server(() => undefined)
    const aborter = new AbortController()
    const opening = stream(url, { signal: aborter.signal })
    const rejected = expect(opening).rejects.toBe(why)
    const { closed } = await requests.nth(1)
    aborter.abort(why)
    await rejected
    await closed
  })

  it('in mid-stream breaks it, also where nobody reads, and closes the connection', async () => {
    const { url, requests } = await server(endless(), endless())
    for (const isReading of [true, false]) {
      const aborter = new AbortController()
      const { stream: body } = await stream(url, { signal: aborter.signal })
      const reader = body.getReader()
      if (isReading) await reader.read()
      aborter.abort(why)
      await expect(reader.closed).rejects.toBe(why)
      await requests.at(-1)!.closed
    }
  })

  it('between two attempts ends the wait', async () => {
    const { url } = await server(broken(BYTES, 10))
    const aborter = new AbortController()
    const found = await stream(url, {
      signal: aborter.signal,
      minTimeout: 60_000,
      maxTimeout: 60_000,
      onReconnect: () => setTimeout(() => aborter.abort(why))
    })
    expect(await drain(found)).toMatchObject({ error: why })
  })

  it.each<
    [who: string, options: (never: () => Promise<never>) => Parameters<typeof streamResource>[2]]
  >([
    ['headers', never => ({ headers: never })],
    ['fetch', never => ({ fetch: never })]
  ])('is heard also where a function `%s` does not listen', async (_who, options) => {
    const { url } = await server()
    const aborter = new AbortController()
    const never = (): Promise<never> => {
      setImmediate(() => aborter.abort(why))
      return new Promise(() => undefined)
    }
    await expect(stream(url, { ...options(never), signal: aborter.signal })).rejects.toBe(why)
  })

  it('is heard also where a transport does not listen, and so is silence', async () => {
    const aborter = new AbortController()
    const send = (): Promise<void> => {
      setImmediate(() => aborter.abort(why))
      return new Promise(() => undefined)
    }
    const transport = { send, _fetch: fetch }
    await expect(streamResource(transport, RESOURCE, { signal: aborter.signal })).rejects.toBe(why)
    const silence = { ...FAST, idleTimeout: 1, maxRetries: 1 }
    await expect(streamResource(transport, RESOURCE, silence)).rejects.toMatchObject({
      code: 'retries-exhausted'
    })
  })

  it('discards what a fetch that does not listen brings too late, its body included', async () => {
    const aborter = new AbortController()
    const cancelled: unknown[] = []
    const bodyOf = (name: string, pull: () => unknown): ReadableStream<Uint8Array> =>
      new ReadableStream(
        { pull: pull as () => void, cancel: () => void cancelled.push(name) },
        { highWaterMark: 0 }
      )
    const late = gate<Response>()
    const opening = stream('http://127.0.0.1:9/mcp', {
      signal: aborter.signal,
      fetch: () => (setImmediate(() => aborter.abort(why)), late.opened)
    })
    await expect(opening).rejects.toBe(why)
    late.open(
      new Response(
        bodyOf('response', () => undefined),
        { headers: HEAD }
      )
    )
    await new Promise(resolve => setImmediate(resolve))
    expect(cancelled).toEqual(['response'])

    const second = new AbortController()
    const pulled = gate()
    const silent = bodyOf('body', () => (pulled.open(), new Promise(() => undefined)))
    const found = await stream('http://127.0.0.1:9/mcp', {
      signal: second.signal,
      fetch: async () => new Response(silent, { headers: HEAD })
    })
    const drained = drain(found)
    await pulled.opened
    second.abort(why)
    expect(await drained).toMatchObject({ error: why })
    expect(cancelled).toEqual(['response', 'body'])
  })

  it('behind the end changes nothing, and leaves no listener', async () => {
    const { url } = await server(direct(BYTES), status(404))
    const aborter = new AbortController()
    const listening = jest.spyOn(aborter.signal, 'addEventListener')
    expect(await drain(await stream(url, { signal: aborter.signal }))).toMatchObject({
      error: undefined
    })
    await outcome(url, { signal: aborter.signal })
    expect(listening).toHaveBeenCalledTimes(2)
    expect(getEventListeners(aborter.signal, 'abort')).toEqual([])
    aborter.abort(why)
  })

  it('by cancelling the stream closes the connection', async () => {
    const { url, requests } = await server(endless())
    await (await stream(url)).stream.cancel()
    await requests[0]!.closed
  })
})

describe('a resource that changes between two requests', () => {
  it('before its first byte was handed up is not passed off as the first', async () => {
    const { url } = await server(broken(BYTES, 0), direct(BYTES.subarray(1), { ETag: '"v2"' }))
    expect(await outcome(url)).toMatchObject({ code: 'changed' })
    const same = await server(broken(BYTES, 0), direct(BYTES, TAG))
    expect(await outcome(same.url, FAST)).toBeUndefined()
  })
})
