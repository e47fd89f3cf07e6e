// A transfer that breaks goes on where it was, with the same bytes; or it fails, and says why.

import { describe, expect, it } from '@jest/globals'
import type { ResourceReconnection } from '../../../lib/client/index.js'
import { closeAll } from '../../helpers/listen.js'
import {
  breakOff,
  broken,
  bytesOf,
  direct,
  download,
  drain,
  HEAD,
  outcome,
  ranged,
  redirect,
  server,
  sha256,
  status,
  stream,
  TAG,
  type Answer
} from './resource-server.js'

const BYTES = bytesOf(50_000)

async function expectWhole(url: string, options = {}): Promise<void> {
  const { bytes, error } = await drain(await stream(url, options))
  expect(error).toBeUndefined()
  expect([bytes.length, sha256(bytes)]).toEqual([BYTES.length, sha256(BYTES)])
}

/** What was asked, and from where on. */
const asked = (
  requests: { method: string; url: string; headers: { range?: string | undefined } }[]
) => requests.map(({ method, url, headers }) => [method, url, headers.range])

describe('a transfer that breaks', () => {
  it('goes on with Range and If-Range, as often as it must', async () => {
    const { url, requests } = await server(
      broken(BYTES, 20_000),
      broken(BYTES, 1),
      broken(BYTES, 999),
      ranged(BYTES)
    )
    const told: ResourceReconnection[] = []
    await expectWhole(url, {
      maxRetries: 1,
      onReconnect: (one: ResourceReconnection) => told.push(one)
    })
    expect(asked(requests)).toEqual([
      ['POST', '/mcp', undefined],
      ['POST', '/mcp', 'bytes=20000-'],
      ['POST', '/mcp', 'bytes=20001-'],
      ['POST', '/mcp', 'bytes=21000-']
    ])
    expect(requests.map(({ headers }) => headers['if-range'])).toEqual([
      undefined,
      '"v1"',
      '"v1"',
      '"v1"'
    ])
    expect(requests.every(({ headers }) => headers['accept-encoding'] === 'identity')).toBe(true)
    expect(told.map(({ attempt, received, reason }) => [attempt, received, reason])).toEqual([
      [1, 20_000, 'error'],
      [1, 20_001, 'error'],
      [1, 21_000, 'error']
    ])
  })

  it('goes on where a redirect led, without asking again', async () => {
    const storage = await server(broken(BYTES, 9000), ranged(BYTES))
    const { url, requests } = await server(redirect(`${storage.origin}/blob`))
    await expectWhole(url)
    expect(requests).toHaveLength(1)
    expect(asked(storage.requests)).toEqual([
      ['GET', '/blob', undefined],
      ['GET', '/blob', 'bytes=9000-']
    ])
  })

  it.each([401, 403, 404, 410])('asks again where the target has run out (%d)', async code => {
    const storage = await server(broken(BYTES, 9000), status(code), ranged(BYTES))
    const { url } = await server(
      redirect(`${storage.origin}/old`),
      redirect(`${storage.origin}/new`)
    )
    await expectWhole(url)
    expect(asked(storage.requests).at(-1)).toEqual(['GET', '/new', 'bytes=9000-'])
  })

  it('asks again for a download URL, also before the first byte', async () => {
    const later: Answer[] = []
    const { url, origin, requests } = await server(
      (...about) => later[0]!(...about),
      status(410),
      (...about) => later[1]!(...about),
      ranged(BYTES)
    )
    later.push(download(`${origin}/old`), download(`${origin}/new`))
    await expectWhole(url)
    expect(asked(requests).map(([method, url]) => `${method} ${url}`)).toEqual([
      'POST /mcp',
      'GET /old',
      'POST /mcp',
      'GET /new'
    ])
  })

  it('asks again as often as what it gets is used up without a byte of it arriving', async () => {
    const storage = await server(
      broken(BYTES, 0),
      status(404),
      broken(BYTES, 0),
      status(404),
      ranged(BYTES)
    )
    const { url } = await server(...[1, 2, 3].map(n => redirect(`${storage.origin}/${n}`)))
    await expectWhole(url)
    expect(asked(storage.requests).map(([, path]) => path)).toEqual(['/1', '/1', '/2', '/2', '/3'])
  })

  it('asks again as often as what it gets is used up by an answer that is lost', async () => {
    const lost: Answer = res => void res.destroy()
    const storage = await server(lost, status(404), lost, status(404), ranged(BYTES))
    const { url } = await server(...[1, 2, 3].map(n => redirect(`${storage.origin}/${n}`)))
    await expectWhole(url)
    expect(asked(storage.requests).map(([, path]) => path)).toEqual(['/1', '/1', '/2', '/2', '/3'])
  })

  it('asks only once more where nothing comes of it', async () => {
    const storage = await server(broken(BYTES, 9000), status(410), status(410))
    const { url } = await server(redirect(`${storage.origin}/1`), redirect(`${storage.origin}/2`))
    expect(await outcome(url)).toMatchObject({ code: 'refused', status: 410 })
  })

  it('begins anew where nothing has come yet', async () => {
    const { url, requests } = await server(broken(BYTES, 0, { ETag: '' }), direct(BYTES))
    await expectWhole(url)
    expect(requests[1]!.headers.range).toBeUndefined()
  })

  it('passes over what it has where the same thing comes whole', async () => {
    const { url } = await server(broken(BYTES, 20_000), direct(BYTES, TAG))
    await expectWhole(url)
  })

  it('goes on behind a part of the rest', async () => {
    const part: Answer = res =>
      res
        .writeHead(206, {
          ...HEAD,
          ...TAG,
          'Content-Range': 'bytes 20000-20009/50000',
          'Content-Length': 10
        })
        .end(BYTES.subarray(20_000, 20_010))
    const { url, requests } = await server(broken(BYTES, 20_000), part, ranged(BYTES))
    await expectWhole(url)
    expect(requests[2]!.headers.range).toBe('bytes=20010-')
  })

  it('of unknown length is over where the server has no more (416)', async () => {
    const cutBehindLast: Answer = res => breakOff(res.writeHead(200, { ...HEAD, ...TAG }), BYTES)
    const { url, requests } = await server(cutBehindLast, res =>
      res.writeHead(416, { 'Content-Range': `bytes */${BYTES.length}` }).end()
    )
    await expectWhole(url)
    expect(requests).toHaveLength(2)
  })

  /**
   * Sent in chunks over a connection that ends with them: some runtimes take a cut in it for its
   * end.
   */
  const chunked =
    (upTo: number, headers: Record<string, string> = TAG): Answer =>
    res =>
      breakOff(
        res.writeHead(200, { ...HEAD, ...headers, Connection: 'close' }),
        BYTES.subarray(0, upTo)
      )

  it('of unknown length, whose connection just ends, is asked for what may be missing', async () => {
    const { url, requests } = await server(chunked(20_000), ranged(BYTES))
    await expectWhole(url)
    expect(asked(requests)).toEqual([
      ['POST', '/mcp', undefined],
      ['POST', '/mcp', 'bytes=20000-']
    ])
  })

  it('of unknown length is over where its connection ends at the same place again', async () => {
    const end: Answer = res =>
      res.writeHead(200, { ...HEAD, ...TAG, Connection: 'close' }).end(BYTES)
    const { url, requests } = await server(end, end)
    await expectWhole(url)
    expect(requests).toHaveLength(2)
  })

  it('of unknown length, whose connection just ends, fails where nothing says that the rest would fit', async () => {
    const { url } = await server(chunked(20_000, {}))
    expect(await outcome(url)).toMatchObject({ code: 'incomplete' })
  })

  it('goes on with a date, where that is all there is and it is old enough', async () => {
    const modified = 'Wed, 21 Oct 2015 07:28:00 GMT'
    const dated = { ETag: 'W/"weak"', 'Last-Modified': modified }
    const { url, requests } = await server(broken(BYTES, 20_000, dated), ranged(BYTES, dated))
    await expectWhole(url)
    expect(requests[1]!.headers['if-range']).toBe(modified)
  })

  it.each([
    ['an error', broken(BYTES, 100)],
    ['a status', status(503)],
    ['another status', status(429, { 'Retry-After': '0' })],
    ['silence', () => undefined],
    ['half a head', (res => void res.socket?.end('HTTP/1.1 20')) as Answer]
  ])('is patient with %s on the way', async (_name, trouble: Answer) => {
    const { url } = await server(trouble, broken(BYTES, 50), trouble, ranged(BYTES))
    await expectWhole(url, { idleTimeout: 100 })
  })

  it('takes silence in mid-body for a break', async () => {
    const { url, requests } = await server(
      res =>
        res
          .writeHead(200, { ...HEAD, ...TAG, 'Content-Length': BYTES.length })
          .write(BYTES.subarray(0, 70)),
      ranged(BYTES)
    )
    await expectWhole(url, { idleTimeout: 50 })
    await requests[0]!.closed
  })

  it('sends headers made afresh, and has a token renewed once', async () => {
    const { url, requests } = await server(broken(BYTES, 10), status(401), ranged(BYTES))
    let n = 0
    await expectWhole(url, { headers: () => Promise.resolve({ Authorization: `Bearer ${++n}` }) })
    expect(requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer 1',
      'Bearer 2',
      'Bearer 3'
    ])
    const refusing = await server(status(401), status(401))
    expect(await outcome(refusing.url, { headers: () => ({}) })).toMatchObject({
      code: 'unauthorized',
      status: 401
    })
  })
})

describe('a transfer that cannot go on', () => {
  const changed = bytesOf(50_000).reverse()

  it.each<[string, Answer[]]>([
    ['the tag is another', [direct(changed, { ETag: '"v2"' })]],
    ['the tag of a part is another', [ranged(changed, { ETag: '"v2"' })]],
    ['the tag is gone', [direct(changed)]],
    ['the size is another', [ranged(bytesOf(60_000))]],
    ['it has become shorter', [direct(bytesOf(10), TAG)]],
    [
      'it ends where it went on before',
      [res => res.writeHead(416, { 'Content-Range': 'bytes */7' }).end()]
    ]
  ])('because %s is not spliced', async (_name, answers) => {
    const { url } = await server(broken(BYTES, 20_000), ...answers)
    const { bytes, error } = await drain(await stream(url))
    expect(error).toMatchObject({ code: 'changed' })
    expect(bytes.equals(BYTES.subarray(0, bytes.length))).toBe(true)
  })

  it('because it ends before the place where it broke is not taken for whole', async () => {
    const unsized: Record<string, string> = { ...HEAD, ...TAG }
    const { url } = await server(
      res => breakOff(res.writeHead(200, unsized), BYTES),
      res => res.writeHead(200, unsized).end(BYTES.subarray(0, 10))
    )
    expect(await outcome(url)).toMatchObject({ code: 'changed' })
  })

  it('because the date is another is not spliced', async () => {
    const first = { ETag: 'W/"1"', 'Last-Modified': 'Wed, 21 Oct 2015 07:28:00 GMT' }
    const { url } = await server(
      broken(BYTES, 20_000, first),
      ranged(BYTES, { ...first, ETag: 'W/"2"' })
    )
    expect(await outcome(url)).toMatchObject({ code: 'changed' })
  })

  it.each<[string, Record<string, string>]>([
    ['nothing tells it apart', { ETag: '' }],
    ['its tag is weak', { ETag: 'W/"1"' }],
    [
      'its date is too fresh',
      { ETag: '', 'Last-Modified': new Date(Date.now() + 3_600_000).toUTCString() }
    ]
  ])('because %s says so, without asking', async (_name, headers) => {
    const { url, requests } = await server(broken(BYTES, 20_000, headers))
    expect(await outcome(url)).toMatchObject({
      code: 'incomplete',
      cause: { message: expect.any(String) }
    })
    expect(requests).toHaveLength(1)
  })

  it('because it is encoded on the way says so', async () => {
    const { gzipSync } = await import('node:zlib')
    const zipped = gzipSync(BYTES)
    const encoded = { ...HEAD, ...TAG, 'Content-Encoding': 'gzip', 'Content-Length': zipped.length }
    const { url } = await server(
      res => res.writeHead(200, encoded).end(zipped),
      res => breakOff(res.writeHead(200, encoded), zipped.subarray(0, -20))
    )
    await expectWhole(url)
    // From Node 24 on nothing of it is handed up: then it is asked for again, and this server has
    // no more to say.
    expect(await outcome(url)).toMatchObject({
      code: expect.stringMatching(/^(incomplete|refused)$/)
    })
  })

  it.each<[string, Answer]>([
    ['another range', (res => ranged206(res, 'bytes 19999-49999/50000')) as Answer],
    ['an upside-down range', (res => ranged206(res, 'bytes 20000-19999/50000')) as Answer],
    ['no range', (res => res.writeHead(206, { ...HEAD, ...TAG }).end()) as Answer],
    ['several ranges', (res => ranged206(res, undefined)) as Answer]
  ])('because it gets %s says so', async (_name, answer) => {
    const { url } = await server(broken(BYTES, 20_000), answer)
    expect(await outcome(url)).toMatchObject({ code: 'unexpected-answer', status: 206 })
  })

  it('because all attempts are used up says so, and why', async () => {
    const { url, requests } = await server(
      broken(BYTES, 20_000),
      status(503),
      status(502),
      status(500)
    )
    expect(await outcome(url, { maxRetries: 2 })).toMatchObject({
      code: 'retries-exhausted',
      message: 'The resource cannot be streamed: retries exhausted: 2 in a row: HTTP 502',
      cause: { message: expect.stringContaining('502') }
    })
    expect(requests).toHaveLength(3)
    const none = await server(broken(BYTES, 20_000))
    expect(await outcome(none.url, { maxRetries: 0 })).toMatchObject({ code: 'retries-exhausted' })
  })

  it('to a server that is not there rejects', async () => {
    const { url } = await server()
    await closeAll()
    expect(await outcome(url, { maxRetries: 2 })).toMatchObject({
      code: 'retries-exhausted',
      cause: { message: expect.any(String) }
    })
  })
})

function ranged206(res: Parameters<Answer>[0], range: string | undefined): void {
  const headers =
    range === undefined
      ? { 'Content-Type': 'multipart/byteranges; boundary=x' }
      : { 'Content-Range': range }
  res.writeHead(206, { ...HEAD, ...TAG, ...headers }).end(BYTES.subarray(20_000))
}
