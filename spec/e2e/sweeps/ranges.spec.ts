// Parts of a resource: single ranges, ranges that are none, `If-Range`, and a resource put together
// from random pieces.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { fc, times } from '../../helpers/property.js'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { Resource } from '../../../lib/resources/index.js'
import {
  errorOf,
  serveResources,
  sha256,
  testBytes,
  whole
} from '../../features/resources/setup.js'

const SIZE = 10_000
const CONTENT = testBytes(SIZE)
let folder: string
let file: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-resources-'))
  file = join(folder, 'file.bin')
  await writeFile(file, CONTENT)
})
afterAll(() => rm(folder, { recursive: true }))

const LAST_MODIFIED = new Date('2026-01-02T03:04:05Z')
const SOURCES: [kind: string, resource: () => Resource][] = [
  ['a file', () => ({ path: file, etag: 'v1', lastModified: LAST_MODIFIED })],
  ['bytes', () => ({ body: CONTENT, etag: 'v1', lastModified: LAST_MODIFIED })],
  [
    'a function of a range',
    () => ({
      size: SIZE,
      etag: 'v1',
      lastModified: LAST_MODIFIED,
      range: (start, end) => Readable.from([CONTENT.subarray(start, end + 1)])
    })
  ]
]

describe.each(SOURCES)('of %s', (_kind, resource) => {
  it.each([
    ['bytes=0-0', 0, 1],
    ['bytes=0-', 0, SIZE],
    ['bytes=100-199', 100, 200],
    ['bytes=9999-', 9999, SIZE],
    ['bytes=9000-99999', 9000, SIZE],
    ['bytes=-1', 9999, SIZE],
    ['bytes=-500', 9500, SIZE],
    ['bytes=-10000', 0, SIZE],
    // More than there is, is all there is.
    ['bytes=-10001', 0, SIZE],
    ['bytes=-99999999999999999999', 0, SIZE],
    ['bytes=0-99,100-199', 0, 200]
  ])('%s is one range', async (range, from, to) => {
    const { ask } = await serveResources(resource)
    const response = await whole(ask('a:1', { range }))
    expect([
      response.status,
      response.headers['content-range'],
      response.headers['content-length']
    ]).toEqual([206, `bytes ${from}-${to - 1}/${SIZE}`, String(to - from)])
    expect(response.bytes.equals(CONTENT.subarray(from, to))).toBe(true)
    expect(response.headers).toMatchObject({
      etag: '"v1"',
      'mcp-resource-uri': 'a:1',
      'cache-control': 'no-store'
    })
  })

  const NO_RANGES = [
    'bytes=10-5,',
    'bytes=x-',
    'bytes=',
    'bytes=-',
    'bytes=0-1,5-6',
    'items=0-5',
    '0-5',
    `bytes=${Array.from({ length: 1500 }, (_, i) => `${i * 3}-${i * 3}`).join(',')}`
  ]

  it.each(NO_RANGES.map(range => [range.slice(0, 30), range]))(
    '%s gets the whole',
    async (_start, range) => {
      const { ask } = await serveResources(resource)
      const response = await whole(ask('a:1', { range }))
      expect([response.status, response.headers['content-range']]).toEqual([200, undefined])
      expect(response.bytes.equals(CONTENT)).toBe(true)
    }
  )

  it.each([`bytes=${SIZE}-`, 'bytes=20000-30000', 'bytes=5-4'])(
    '%s is not satisfiable',
    async range => {
      const { ask, errors } = await serveResources(resource)
      const response = await whole(ask('a:1', { range }))
      expect(await errorOf(response, 416)).toMatchObject({
        code: -31000,
        data: { uri: 'a:1', reason: 'range-not-satisfiable', size: SIZE }
      })
      expect(response.headers['content-range']).toBe(`bytes */${SIZE}`)
      expect(response.headers['mcp-resource-uri']).toBeUndefined()
      expect(errors).toEqual([])
    }
  )

  it.each([
    ['"v1"', 206],
    ['"v2"', 200],
    ['W/"v1"', 200],
    ['"v1", "v2"', 200],
    [LAST_MODIFIED.toUTCString(), 206],
    ['Fri, 02 Jan 2026 03:04:06 GMT', 200],
    ['Fri, 02 Jan 2026 03:04:04 GMT', 200],
    ['rubbish', 200]
  ])('If-Range: %s is answered with %d', async (ifRange, status) => {
    const { ask } = await serveResources(resource)
    const response = await whole(ask('a:1', { range: 'bytes=5-', 'if-range': ifRange }))
    expect(response.status).toBe(status)
    expect(response.bytes.equals(CONTENT.subarray(status === 206 ? 5 : 0))).toBe(true)
  })

  it.each([
    ['"v1"', 200],
    ['*', 200],
    ['"v0", "v1"', 200],
    ['"v2"', 412],
    ['W/"v1"', 412]
  ])('If-Match: %s is answered with %d', async (match, status) => {
    const { ask } = await serveResources(resource)
    const response = await whole(ask('a:1', { 'if-match': match }))
    if (status === 200) expect(response.bytes.equals(CONTENT)).toBe(true)
    else
      expect(await errorOf(response, 412)).toMatchObject({
        data: { reason: 'precondition-failed' }
      })
  })

  it.each([
    ['"a,b"', '"x", "a,b"', 200],
    ['W/"v1"', 'W/"v1"', 412],
    ['W/"v1"', '*', 200]
  ])('of the tag %s, If-Match: %s is answered with %d', async (etag, match, status) => {
    const { ask } = await serveResources(() => ({ ...resource(), etag }))
    expect((await whole(ask('a:1', { 'if-match': match }))).status).toBe(status)
  })

  it('other conditions mean nothing to a POST', async () => {
    const { ask } = await serveResources(resource)
    const conditions = { 'if-none-match': '"v1"', 'if-modified-since': LAST_MODIFIED.toUTCString() }
    expect((await whole(ask('a:1', conditions))).status).toBe(200)
  })

  it('random pieces make up the whole, and its checksum', async () => {
    const { ask } = await serveResources(resource)
    const cuts = fc.uniqueArray(fc.integer({ min: 1, max: SIZE - 1 }), { maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(cuts, async points => {
        const ends = [...points.sort((a, b) => a - b), SIZE]
        const pieces: Buffer[] = []
        for (const [i, end] of ends.entries()) {
          const range = `bytes=${ends[i - 1] ?? 0}-${end - 1}`
          pieces.push((await whole(ask('a:1', { range, 'if-range': '"v1"' }))).bytes)
        }
        expect(sha256(Buffer.concat(pieces))).toBe(sha256(CONTENT))
      }),
      { numRuns: times(15) }
    )
  })
})

it.each([
  ['a file', () => ({ path: file, etag: 'W/"v1"' })],
  ['bytes', () => ({ body: CONTENT, etag: 'W/"v1"' })]
])('a weak validator, of %s, proves nothing to If-Range', async (_kind, resource) => {
  const { ask } = await serveResources(resource)
  const response = await whole(ask('a:1', { range: 'bytes=5-', 'if-range': 'W/"v1"' }))
  expect([response.status, response.headers.etag]).toEqual([200, 'W/"v1"'])
})

it.each<[kind: string, resource: Resource]>([
  ['bytes', { body: Buffer.alloc(0) }],
  ['a function of a range', { size: 0, range: () => Buffer.alloc(0) }]
])(
  'a suffix range of an empty resource, of %s, gives 200; its first byte gives 416',
  async (_kind, resource) => {
    const { ask } = await serveResources(() => resource)
    const { status, bytes, headers } = await whole(ask('a:1', { range: 'bytes=-5' }))
    expect([status, bytes.length, headers['content-range']]).toEqual([200, 0, undefined])
    for (const range of ['bytes=-0', 'bytes=0-'])
      expect((await whole(ask('a:1', { range }))).status).toBe(416)
  }
)

describe('ranges of a resource that is given as a stream', () => {
  it('are ignored: the whole comes, with `Accept-Ranges: none`', async () => {
    const { ask } = await serveResources(() => ({
      body: Readable.from([CONTENT]),
      size: SIZE,
      etag: 'v1'
    }))
    const response = await whole(ask('a:1', { range: 'bytes=5-' }))
    expect([response.status, response.headers['accept-ranges']]).toEqual([200, 'none'])
    expect(response.bytes.equals(CONTENT)).toBe(true)
  })

  it('are read by the function `range` where there is one', async () => {
    const asked: string[] = []
    const { ask } = await serveResources(() => ({
      size: SIZE,
      body: () => (asked.push('body'), Readable.from([CONTENT])),
      range: (start, end) => (asked.push(`${start}-${end}`), CONTENT.subarray(start, end + 1))
    }))
    expect((await whole(ask('a:1'))).bytes.equals(CONTENT)).toBe(true)
    expect(
      (await whole(ask('a:1', { range: 'bytes=1-2' }))).bytes.equals(CONTENT.subarray(1, 3))
    ).toBe(true)
    expect(asked).toEqual(['body', '1-2'])
  })
})

it('the client’s limit applies to the size of the whole, also for a part', async () => {
  const { ask } = await serveResources(() => ({ path: file }), {
    capabilities: { resourceStreaming: { maxStreamSize: SIZE - 1 } }
  })
  expect(await errorOf(ask('a:1', { range: 'bytes=0-9' }))).toMatchObject({ code: -32004 })
})
