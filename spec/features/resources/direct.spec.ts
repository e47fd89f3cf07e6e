// Direct mode: the bytes of a resource in the response to the POST, from every kind of source, with
// the headers of the SEP.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { NOT_STREAMABLE, type OpenResource, type Resource } from '../../../lib/resources/index.js'
import { gate } from '../../helpers/gate.js'
import { post, request } from '../../helpers/mcp.js'
import { errorOf, serveResources, testBytes, whole } from './setup.js'

const CONTENT = testBytes(300_000)
let folder: string
let file: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-resources-'))
  file = join(folder, 'a file%20.bin')
  await writeFile(file, CONTENT)
})
afterAll(() => rm(folder, { recursive: true }))

const chunks = () => [
  CONTENT.subarray(0, 1000),
  CONTENT.subarray(1000, 200_000),
  CONTENT.subarray(200_000)
]
const web = () => {
  const rest = chunks()
  return new ReadableStream<Uint8Array>({
    pull: controller => {
      const next = rest.shift()
      if (next === undefined) controller.close()
      else controller.enqueue(next)
    }
  })
}

const SOURCES: [kind: string, resource: () => Resource, sized: boolean, ranges: boolean][] = [
  ['a file', () => ({ path: file }), true, true],
  ['bytes', () => ({ body: CONTENT }), true, true],
  ['a stream of Node', () => ({ body: Readable.from(chunks()) }), false, false],
  [
    'a stream of Node, of known size',
    () => ({ body: Readable.from(chunks()), size: CONTENT.length }),
    true,
    false
  ],
  [
    'a stream of Node that was paused',
    () => ({ body: Readable.from(chunks()).pause() }),
    false,
    false
  ],
  ['a web stream', () => ({ body: web() }), false, false],
  ['a web stream, of known size', () => ({ body: web(), size: CONTENT.length }), true, false],
  [
    'a function that opens a stream',
    () => ({ body: async () => web(), size: CONTENT.length }),
    true,
    false
  ],
  [
    'a function of a range',
    () => ({ range: async (start, end) => CONTENT.subarray(start, end + 1), size: CONTENT.length }),
    true,
    true
  ]
]

describe('a resource from', () => {
  it.each(SOURCES)(
    '%s arrives whole, with its headers',
    async (_kind, resource, isSized, hasRanges) => {
      const { ask } = await serveResources(async () => ({
        ...resource(),
        mimeType: 'image/x-test',
        name: 'report.img'
      }))
      const response = await whole(ask('test:///reports/1'))
      expect(response.status).toBe(200)
      expect(response.ending).toBe('end')
      expect(response.bytes.equals(CONTENT)).toBe(true)
      expect(response.headers).toMatchObject({
        'content-type': 'image/x-test',
        'content-disposition': 'attachment; filename="report.img"',
        'mcp-resource-uri': 'test:///reports/1',
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'accept-ranges': hasRanges ? 'bytes' : 'none'
      })
      expect(response.headers['content-length']).toBe(isSized ? String(CONTENT.length) : undefined)
      expect(response.headers.link).toBeUndefined()
    }
  )

  it.each(SOURCES)('%s may be empty', async (kind, resource) => {
    const empty = join(folder, 'empty')
    await writeFile(empty, '')
    const nothing: Resource =
      kind === 'a file'
        ? { path: empty }
        : { ...resource(), ...('range' in resource() ? {} : { body: Buffer.alloc(0) }), size: 0 }
    const { ask } = await serveResources(() => nothing)
    const response = await whole(ask('test:///nothing'))
    expect([response.status, response.ending, response.bytes.length]).toEqual([200, 'end', 0])
    expect(response.headers['content-length']).toBe('0')
  })
})

it.each(['sub/..', '.', '/sub/./..'])('a path of the application’s own may go by %s', async way => {
  await mkdir(join(folder, 'sub'), { recursive: true })
  const { ask } = await serveResources(() => ({ path: `${folder}/${way}/${basename(file)}` }))
  expect((await whole(ask('test:///1'))).bytes.equals(CONTENT)).toBe(true)
})

it('a path with `..` behind a symbolic link is opened as it was checked', async () => {
  await mkdir(join(folder, 'far', 'away'), { recursive: true })
  await symlink(join(folder, 'far', 'away'), join(folder, 'link'))
  // Where the system would go there is nothing.
  await writeFile(join(folder, 'x'), 'beside the link')
  const { ask } = await serveResources(() => ({ path: `${folder}/link/../x` }))
  const { headers, bytes } = await whole(ask('test:///1'))
  expect([headers['content-length'], bytes.toString()]).toEqual(['15', 'beside the link'])
})

describe('validators', () => {
  it('of a file are made from the file: strong, and new with every write', async () => {
    const { ask } = await serveResources(() => ({ path: file }))
    const before = await whole(ask('test:///1'))
    expect(before.headers.etag).toMatch(/^"[^"]+"$/)
    expect(before.headers['last-modified']).toMatch(/ GMT$/)
    await writeFile(file, CONTENT)
    const after = await whole(ask('test:///1'))
    expect(after.headers.etag).not.toBe(before.headers.etag)
  })

  it('of bytes are made from the bytes', async () => {
    const { ask } = await serveResources(uri => ({ body: Buffer.from(uri) }))
    const [a, b, again] = [await ask('test:///a'), await ask('test:///b'), await ask('test:///a')]
    expect(a.headers.etag).toMatch(/^"[^"]+"$/)
    expect(again.headers.etag).toBe(a.headers.etag)
    expect(b.headers.etag).not.toBe(a.headers.etag)
  })

  it.each([
    ['v1', '"v1"'],
    ['"v1"', '"v1"'],
    ['W/"v1"', 'W/"v1"'],
    ['with space', undefined],
    ['a"b', undefined],
    ['', undefined],
    ['x\r\nSet-Cookie: a=b', undefined]
  ])('that are given as %j are sent as %j', async (etag, sent) => {
    const lastModified = new Date('2026-01-02T03:04:05Z')
    const { ask } = await serveResources(() => ({ body: Readable.from(['x']), etag, lastModified }))
    const { headers } = await whole(ask('test:///1'))
    expect(headers.etag).toBe(sent)
    expect(headers['last-modified']).toBe('Fri, 02 Jan 2026 03:04:05 GMT')
    expect(headers['set-cookie']).toBeUndefined()
  })
})

describe('the name and type of a resource', () => {
  it.each<[uri: string, resource: Partial<Resource>, type: string, disposition: string]>([
    ['test:///a/report.pdf', {}, 'application/pdf', 'attachment; filename="report.pdf"'],
    ['test:///a/report.pdf?x=/y#z', {}, 'application/pdf', 'attachment; filename="report.pdf"'],
    ['test:///a/', {}, 'application/octet-stream', 'attachment'],
    ['test://host', {}, 'application/octet-stream', 'attachment'],
    ['urn:isbn:1', {}, 'application/octet-stream', 'attachment; filename="isbn:1"'],
    [
      'test:///x',
      { name: 'Bericht für März.html' },
      'text/html',
      'attachment; filename="Bericht f?r M?rz.html"; filename*=UTF-8\'\'Bericht%20f%C3%BCr%20M%C3%A4rz.html'
    ],
    [
      'test:///x',
      { name: '../../etc/passwd' },
      'application/octet-stream',
      'attachment; filename="passwd"'
    ],
    ['test:///x', { name: '..\\..\\boot.ini' }, 'text/plain', 'attachment; filename="boot.ini"'],
    ['test:///x', { name: '..' }, 'application/octet-stream', 'attachment; filename="x"'],
    [
      'test:///x',
      { name: 'a"; filename="b' },
      'application/octet-stream',
      'attachment; filename="a\\"; filename=\\"b"'
    ],
    [
      'test:///x',
      { name: 'a\r\nSet-Cookie: a=b' },
      'application/octet-stream',
      'attachment; filename="a__Set-Cookie: a=b"'
    ],
    ['test:///x', { name: 'a\ud800b' }, 'application/octet-stream', 'attachment; filename="a_b"'],
    [
      'test:///x',
      { mimeType: 'text/html; charset="utf-8"' },
      'text/html; charset="utf-8"',
      'attachment; filename="x"'
    ],
    [
      'test:///x',
      { mimeType: 'text/html\r\nSet-Cookie: a=b' },
      'application/octet-stream',
      'attachment; filename="x"'
    ],
    ['test:///x', { mimeType: 'html' }, 'application/octet-stream', 'attachment; filename="x"'],
    ['test:///x', { mimeType: '' }, 'application/octet-stream', 'attachment; filename="x"'],
    ['test:///x.json', {}, 'application/octet-stream', 'attachment; filename="x.json"'],
    [
      'test:///x',
      { mimeType: 'application/json; charset=utf-8' },
      'application/octet-stream',
      'attachment; filename="x"'
    ]
  ])('%s %j: %s', async (uri, resource, type, disposition) => {
    const { ask } = await serveResources(() => ({ body: Buffer.from('x'), ...resource }))
    const { status, headers } = await whole(ask(uri))
    expect([status, headers['content-type'], headers['content-disposition']]).toEqual([
      200,
      type,
      disposition
    ])
    expect(headers['set-cookie']).toBeUndefined()
  })

  it.each([
    ['test:///a b', 'test:///a%20b'],
    ['test:///für', 'test:///f%C3%BCr'],
    ['test:///a\r\nSet-Cookie: a=b', 'test:///a%0D%0ASet-Cookie:%20a=b'],
    ['test:///\ud800', 'test:///%EF%BF%BD']
  ])('the URI %j stands in the head as %s', async (uri, sent) => {
    const { ask } = await serveResources(() => ({ body: Buffer.from('x') }))
    const { headers } = await whole(ask(uri))
    expect(headers['mcp-resource-uri']).toBe(sent)
    expect(headers['set-cookie']).toBeUndefined()
  })
})

describe('the bytes of a direct answer', () => {
  it('are sent before the source has given its second chunk', async () => {
    const second = gate()
    const { ask } = await serveResources(() => ({
      size: 8,
      body: Readable.from(
        (async function* () {
          yield Buffer.from('1234')
          await second.opened
          yield Buffer.from('5678')
        })()
      )
    }))
    const response = await ask('test:///1')
    while (response.text !== '1234')
      await new Promise(resolve => response.response.once('data', resolve))
    second.open()
    await response.ended
    expect(response.text).toBe('12345678')
  })

  it('are not compressed by what is mounted in front', async () => {
    const { default: compression } = await import('compression')
    const { url, headers } = await serveResources(() => ({ path: file, mimeType: 'text/plain' }), {
      inFront: [compression({ threshold: 0 })]
    })
    const response = await whole(
      post(url, request(1, 'resources/stream', { uri: 'test:///1' }), {
        ...headers,
        'accept-encoding': 'gzip'
      })
    )
    expect(response.headers['content-encoding']).toBeUndefined()
    expect(response.headers['content-length']).toBe(String(CONTENT.length))
    expect(response.bytes.equals(CONTENT)).toBe(true)
  })
})

describe('a request that is answered without bytes', () => {
  it.each<[name: string, opened: ReturnType<OpenResource>, code: number]>([
    ['undefined', undefined, -32002],
    ['null', null, -32002],
    ['a promise of undefined', Promise.resolve(undefined), -32002],
    ['NOT_STREAMABLE', NOT_STREAMABLE, -32003],
    ['a file that does not exist', { path: '/nowhere/at/all' }, -32002],
    ['a folder', { path: tmpdir() }, -32002],
    ['a device', { path: '/dev/zero' }, -32002],
    ['a path with a NUL', { path: '/tmp/a\0b' }, -32002]
  ])('%s is answered by an error of the SEP', async (_name, opened, code) => {
    const { ask, errors } = await serveResources(() => opened)
    const response = await whole(ask('test:///gone'))
    expect(await errorOf(response)).toMatchObject({ code, data: { uri: 'test:///gone' } })
    expect(JSON.parse(response.text)).toMatchObject({ jsonrpc: '2.0', id: 1 })
    expect(response.headers).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff'
    })
    for (const name of ['mcp-resource-uri', 'etag', 'content-disposition', 'accept-ranges'])
      expect(response.headers[name]).toBeUndefined()
    expect(errors).toEqual([])
  })

  it.each([
    [undefined],
    [7],
    [''],
    ['no-scheme'],
    [{ a: 1 }],
    [`test:///${'x'.repeat(5000)}`],
    [`test:///${'€'.repeat(600)}`]
  ])('a URI that is none, %j, is an invalid parameter', async uri => {
    const { url, headers } = await serveResources(() => ({ body: Buffer.from('x') }))
    const error = await errorOf(post(url, request(1, 'resources/stream', { uri }), headers))
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('uri') })
  })

  it('without params is one too, and a request without an id is the endpoint’s', async () => {
    const { url, headers, endpoint } = await serveResources(() => ({ body: Buffer.from('x') }))
    expect(await errorOf(post(url, request('a', 'resources/stream'), headers))).toMatchObject({
      code: -32602
    })
    const notification = await post(
      url,
      { jsonrpc: '2.0', method: 'resources/stream', params: {} },
      headers
    )
    expect(notification.status).toBe(202)
    expect(endpoint.requests.at(-1)!.message.method).toBe('resources/stream')
  })
})

describe('Accept', () => {
  it.each([
    ['application/json, text/event-stream', false],
    ['application/json', false],
    ['application/json, image/*', true],
    ['image/png', true],
    ['image/jpeg', false],
    ['*/*, image/png;q=0', false],
    ['*/*', true]
  ])('%s: bytes %p', async (accept, isFine) => {
    const { ask } = await serveResources(() => ({ body: Buffer.from('x'), mimeType: 'image/png' }))
    const response = await whole(ask('test:///1', { accept }))
    if (isFine) expect(response.text).toBe('x')
    else
      expect(await errorOf(response)).toMatchObject({
        code: -32003,
        data: { suggestion: expect.stringContaining('image/png') }
      })
  })

  it('that does not take the bytes gets a download URL, where there can be one', async () => {
    const { ask } = await serveResources({
      open: () => ({ body: Buffer.from('x'), mimeType: 'image/png' }),
      publicUrl: 'https://mcp.example/mcp'
    })
    const response = await ask('test:///1', { accept: 'application/json, text/event-stream' })
    expect((await response.json()).result).toEqual({
      uri: 'test:///1',
      mimeType: 'image/png',
      size: 1,
      downloadUrl: expect.stringMatching(/^https:\/\/mcp\.example\/mcp\?download=[\w-]{21}$/)
    })
  })

  it('may be left out', async () => {
    const { url, headers } = await serveResources(() => ({
      body: Buffer.from('x'),
      mimeType: 'image/png'
    }))
    const { accept: _accept, ...rest } = headers
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...rest, 'content-type': 'application/json', accept: '*/*' },
      body: JSON.stringify(request(1, 'resources/stream', { uri: 'test:///1' }))
    })
    expect(await response.text()).toBe('x')
  })
})

it('is refused to pages of other origins, before anything is asked or opened', async () => {
  const asked: string[] = []
  const { ask, endpoint } = await serveResources(async uri => {
    asked.push(uri)
    return { body: CONTENT }
  })
  const before = endpoint.requests.length
  for (const uri of ['test:///a', 'not a URI']) {
    const error = await errorOf(ask(uri, { origin: 'https://evil.example' }), 403)
    expect(error.data).toEqual({ reason: 'foreign-origin' })
  }
  expect([asked, endpoint.requests.length]).toEqual([[], before])
})
