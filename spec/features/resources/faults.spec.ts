// What goes wrong: providers that throw, lie or fall silent, clients that stall or leave. No crash,
// no leak, no half answer.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { renameSync } from 'node:fs'
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import type { OpenResource, Resource, ResourceContext } from '../../../lib/resources/index.js'
import { isLoopback } from '../../../lib/http/loopback.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { request } from '../../helpers/mcp.js'
import { sleep } from '../../helpers/sleep.js'
import { errorOf, fetchUrl, serveResources, testBytes, whole } from './setup.js'

const INTERNAL = { code: -32603, message: 'Internal error', data: { uri: 'a:1' } }
const MEBIBYTE = 1024 * 1024

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-resources-'))
})
afterAll(() => rm(folder, { recursive: true }))

/** A source that gives chunks until it is destroyed. */
function endless(size = 64 * 1024) {
  let given = 0
  const source = new Readable({
    read() {
      given += size
      this.push(Buffer.alloc(size, 7))
    }
  })
  return { source, given: () => given }
}

const closed = (source: NodeJS.EventEmitter): Promise<unknown> =>
  new Promise(resolve => source.once('close', resolve))

describe('a provider that', () => {
  it.each<[what: string, open: OpenResource, why: string]>([
    [
      'throws',
      () => {
        throw new Error('why')
      },
      'why'
    ],
    [
      'rejects',
      async () => {
        throw new Error('why')
      },
      'why'
    ],
    [
      'throws what is no error',
      () => {
        throw 'why' as never
      },
      ''
    ],
    ['returns a string', () => 'x' as never, '`open`'],
    ['returns an array', () => [] as never, 'one of'],
    ['returns an empty object', () => ({}), 'one of'],
    ['returns two at once', () => ({ path: '/tmp/x', body: Buffer.from('x') }), 'one of'],
    ['returns a range without a size', () => ({ range: () => Buffer.from('x') }), '`size`'],
    ['returns a range that is none', () => ({ range: 'x' as never, size: 1 }), '`range`'],
    ['returns a bad size', () => ({ body: Readable.from(['x']), size: -1 }), '`size`'],
    [
      'returns a size that is no number',
      () => ({ body: Readable.from(['x']), size: '1' as never }),
      '`size`'
    ],
    ['returns bytes of another size', () => ({ body: Buffer.from('x'), size: 2 }), '`size`'],
    ['returns a relative path', () => ({ path: 'package.json' }), '`path`'],
    ['returns a path that is none', () => ({ path: 7 as never }), '`path`'],
    ['returns bytes that are none', () => ({ body: 'x' as never }), 'bytes'],
    ['returns a function of no bytes', () => ({ body: () => undefined as never }), 'bytes'],
    [
      'returns a function that throws',
      () => ({
        body: () => {
          throw new Error('why')
        }
      }),
      'why'
    ],
    [
      'returns a range that rejects',
      () => ({
        size: 5,
        range: async () => {
          throw new Error('why')
        }
      }),
      'why'
    ],
    [
      'returns a locked stream',
      () => {
        const body = new ReadableStream<Uint8Array>()
        body.getReader()
        return { body }
      },
      'lock'
    ],
    [
      'returns a stream that was read',
      async () => {
        const body = Readable.from(['x'])
        for await (const _ of body);
        return { body, size: 1 }
      },
      'read already'
    ],
    [
      'returns a stream that was read, of unknown size',
      async () => {
        const body = Readable.from(['x'])
        for await (const _ of body);
        return { body }
      },
      'read already'
    ],
    [
      'returns a web stream that was read',
      async () => {
        const response = new Response('x')
        await response.text()
        return { body: response.body as ReadableStream }
      },
      'read already'
    ],
    [
      'returns a stream that was destroyed',
      () => ({ body: Readable.from(['x']).destroy() }),
      'closed'
    ],
    [
      'returns a stream that has failed',
      () => ({ body: new Readable({ read() {} }).on('error', () => {}).destroy(new Error('why')) }),
      'why'
    ],
    [
      'returns a stream that fails at once',
      () => ({
        body: new Readable({
          read() {
            this.destroy(new Error('why'))
          }
        })
      }),
      'why'
    ],
    [
      'returns a stream that is closed at once',
      () => ({
        body: new Readable({
          read() {
            this.destroy()
          }
        })
      }),
      'closed'
    ],
    [
      'returns a web stream that fails at once',
      () => ({
        body: new ReadableStream({
          pull() {
            throw new Error('why')
          }
        })
      }),
      'why'
    ],
    ['gives something that is no bytes', () => ({ body: Readable.from([{ a: 1 }]) }), 'bytes'],
    [
      'gives too many bytes in one piece',
      () => ({ body: Readable.from(['xyz']), size: 2 }),
      'more than the 2 bytes'
    ],
    [
      'gives too many bytes in a second piece',
      () => ({ body: Readable.from(['xy', 'z']), size: 2 }),
      'more than the 2 bytes'
    ],
    [
      'gives bytes where there are none',
      () => ({ body: Readable.from(['x']), size: 0 }),
      'more than the 0 bytes'
    ]
  ])('%s is an internal error that says nothing of it', async (_what, open, why) => {
    const { ask, errors } = await serveResources(open)
    const response = await whole(ask('a:1'))
    expect(await errorOf(response)).toEqual(INTERNAL)
    expect(response.headers['mcp-resource-uri']).toBeUndefined()
    expect(response.headers['content-disposition']).toBeUndefined()
    expect(errors).toMatchObject([{ name: 'StreamError', code: 'resource-failed' }])
    const cause = errors[0]!.cause as Error | string
    expect(String((cause as Error).message ?? cause)).toContain(why)
  })

  it('never answers is not waited for longer than the option says, and is told', async () => {
    const signals: AbortSignal[] = []
    const { ask, errors } = await serveResources({
      open: (_uri, { signal }) => (signals.push(signal), new Promise(() => undefined)),
      timeout: 50
    })
    expect(await errorOf(ask('a:1'))).toEqual(INTERNAL)
    expect([signals[0]!.aborted, errors.length]).toEqual([true, 1])
  })

  it('gives an invalid resource has its stream destroyed', async () => {
    const { source } = endless()
    const destroyed = closed(source)
    const { ask } = await serveResources(() => ({ body: source, size: -1 }))
    expect(await errorOf(await whole(ask('a:1')))).toEqual(INTERNAL)
    await destroyed
  })

  it('answers too late has its stream destroyed', async () => {
    const source = endless().source
    const late = gate<Resource>()
    const { ask } = await serveResources({ open: () => late.opened, timeout: 50 })
    await errorOf(ask('a:1'))
    late.open({ body: source })
    await closed(source)
  })
})

describe('a body that comes after the timeout and cannot be cancelled', () => {
  const failing = () => {
    throw new Error('while it is let go')
  }
  it.each<[what: string, body: object]>([
    ['a web stream that cannot be cancelled', { getReader() {}, cancel: failing }],
    ['a web stream whose cancel promises nothing', { getReader() {}, cancel() {} }],
    ['a stream of Node that cannot be destroyed', { pipe() {}, on() {}, destroy: failing }]
  ])('%s, causes no unhandled rejection', async (_what, body) => {
    const late = gate<Resource>()
    const rejected: unknown[] = []
    const onRejected = (error: unknown): unknown => rejected.push(error)
    process.on('unhandledRejection', onRejected)
    try {
      const { ask } = await serveResources({ open: () => late.opened, timeout: 50 })
      await errorOf(ask('a:1'))
      late.open({ body } as Resource)
      for (let i = 0; i < 3; i++) await new Promise(resolve => setImmediate(resolve))
      expect(rejected).toEqual([])
    } finally {
      process.off('unhandledRejection', onRejected)
    }
  })
})

describe('a source that', () => {
  const start = (source: Readable, size?: number) => {
    source.push(Buffer.alloc(1000, 1))
    return serveResources({ open: () => ({ body: source, size }), timeout: 200 })
  }
  /**
   * Bytes are on their way, and then something happens: the connection breaks, so that nobody takes
   * a part for the whole.
   */
  it.each<
    [what: string, size: number | undefined, happens: (source: PassThrough) => void, why: string]
  >([
    ['fails half-way', undefined, source => source.destroy(new Error('why')), 'why'],
    ['fails half-way, of a known size', 5000, source => source.destroy(new Error('why')), 'why'],
    ['is closed half-way', 5000, source => source.destroy(), 'closed'],
    ['ends early', 5000, source => source.end(), '1000 of the 5000'],
    [
      'gives more than it promised',
      1500,
      source => source.end(Buffer.alloc(501)),
      'more than the 1500'
    ],
    ['falls silent', 5000, () => undefined, 'nothing for too long'],
    ['falls silent, of unknown size', undefined, () => undefined, 'nothing for too long']
  ])('%s (size %p)', async (_what, size, happens, why) => {
    const source = new PassThrough()
    const { ask, errors } = await start(source, size)
    const response = await ask('a:1')
    while (response.bytes.length < 1000)
      await new Promise(resolve => response.response.once('data', resolve))
    happens(source)
    expect(await response.ended).not.toBe('end')
    expect(response.bytes.length).toBe(1000)
    expect(errors).toMatchObject([
      { code: 'resource-failed', cause: { message: expect.stringContaining(why) } }
    ])
    expect(source.destroyed).toBe(true)
  })

  it.each([
    ['of unknown size', undefined],
    ['of a known size', 5000]
  ])('fails half-way, %s, is not taken for the whole over HTTP/1.0', async (_what, size) => {
    const source = new PassThrough()
    const { url, headers } = await start(source, size)
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const body = JSON.stringify(request(1, 'resources/stream', { uri: 'a:1' }))
    const head = { ...headers, 'content-type': 'application/json', 'content-length': body.length }
    const fields = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`)
    let got = 0
    let ending: unknown = 'end'
    socket.on('data', chunk => (got += chunk.length))
    socket.on('error', ({ code }: NodeJS.ErrnoException) => (ending = code))
    socket.write(`POST /mcp HTTP/1.0\r\n${fields.join('')}\r\n${body}`)
    await until(() => got > 1000)
    source.destroy(new Error('why'))
    await closed(socket)
    // A length says how much there should have been; without one only a reset can.
    expect(ending).toBe(size === undefined ? 'ECONNRESET' : 'end')
  })

  it('gives more than its client takes, of unknown size, is broken off', async () => {
    const { source } = endless(600)
    const { ask, errors } = await serveResources(() => ({ body: source }), {
      capabilities: { resourceStreaming: { maxStreamSize: 1000 } }
    })
    const response = await whole(ask('a:1'))
    expect([response.ending === 'end', response.bytes.length <= 1000]).toEqual([false, true])
    expect(source.destroyed).toBe(true)
    expect(errors).toMatchObject([
      { cause: { message: expect.stringContaining('1000 bytes that the client takes') } }
    ])
  })

  it.each([1001, 5000])(
    'gives more than its client takes in its first piece of %d bytes, is too large',
    async size => {
      const source = Readable.from([Buffer.alloc(size)])
      const { ask, errors } = await serveResources(() => ({ body: source }), {
        capabilities: { resourceStreaming: { maxStreamSize: 1000 } }
      })
      const data = { uri: 'a:1', maxStreamSize: 1000 }
      expect(await errorOf(ask('a:1'))).toEqual({
        code: -32004,
        message: 'Resource too large',
        data
      })
      expect([source.destroyed, errors]).toEqual([true, []])
    }
  )

  it('is a file that another one takes the place of is what it was, with its own facts', async () => {
    const [path, other] = [join(folder, 'replaced'), join(folder, 'replacement')]
    await writeFile(path, 'the first')
    await writeFile(other, 'the second, and longer')
    const { ask, errors } = await serveResources(() => ({ path }), {
      inFront: [
        (_req, res, next) => {
          const { setHeader } = res
          res.setHeader = (name, value) => {
            // The last word on the file before its first byte.
            if (name === 'Content-Length' && value === 9) renameSync(other, path)
            return setHeader.call(res, name, value)
          }
          next()
        }
      ]
    })
    expect((await whole(ask('a:1'))).text).toBe('the first')
    expect((await whole(ask('a:1'))).text).toBe('the second, and longer')
    expect(errors).toEqual([])
  })

  it('is a file that is cut short meanwhile', async () => {
    const file = join(folder, 'shrinking')
    await writeFile(file, testBytes(40 * MEBIBYTE))
    const { ask, errors } = await serveResources(() => ({ path: file }))
    const response = await ask('a:1')
    response.pause()
    await truncate(file, MEBIBYTE)
    response.resume()
    expect(await response.ended).not.toBe('end')
    expect(errors).toMatchObject([
      { cause: { message: expect.stringContaining('bytes promised') } }
    ])
  })

  it('ends as promised leaves the connection for the next request', async () => {
    const { url, headers } = await serveResources(() => ({
      body: Readable.from(['x', 'y']),
      size: 2
    }))
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const body = JSON.stringify(request(1, 'resources/stream', { uri: 'a:1' }))
    const head = Object.entries({
      ...headers,
      host: 'x',
      'content-type': 'application/json',
      'content-length': body.length
    })
    const text = `POST /mcp HTTP/1.1\r\n${head.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`
    let got = ''
    socket.on('data', chunk => (got += chunk))
    // Pipelined: the second waits for the first.
    socket.write(text + text)
    while (got.split('\r\n\r\nxy').length < 3)
      await new Promise(resolve => socket.once('data', resolve))
    socket.destroy()
  })
})

describe('a client that', () => {
  it('leaves has its source destroyed, and its signal aborted', async () => {
    const { source } = endless()
    const contexts: ResourceContext[] = []
    const { ask, errors } = await serveResources(
      (_uri, context) => (contexts.push(context), { body: source })
    )
    const response = await ask('a:1')
    const gone = closed(source)
    response.destroy()
    await gone
    expect([contexts[0]!.signal.aborted, errors]).toEqual([true, []])
  })

  it('leaves while a web stream has nothing to give has it cancelled', async () => {
    const cancelled = gate()
    const body = new ReadableStream<Uint8Array>({
      start: controller => controller.enqueue(Buffer.from('x')),
      cancel: () => cancelled.open()
    })
    const { ask } = await serveResources(() => ({ body }))
    const response = await ask('a:1')
    response.reset()
    await cancelled.opened
  })

  it('leaves while the provider thinks has what comes of it destroyed', async () => {
    const { source } = endless()
    const asked = gate<AbortSignal>()
    const late = gate<Resource>()
    const { url, headers, errors } = await serveResources(
      (_uri, { signal }) => (asked.open(signal), late.opened)
    )
    const leaving = new AbortController()
    const answer = fetch(url, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(request(1, 'resources/stream', { uri: 'a:1' })),
      signal: leaving.signal
    })
    const signal = await asked.opened
    leaving.abort()
    await expect(answer).rejects.toThrow()
    if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve))
    late.open({ body: source })
    await closed(source)
    expect(errors).toEqual([])
  })

  it('leaves while its file is looked at is not waited for by close()', async () => {
    const path = join(folder, 'looked-at')
    await writeFile(path, 'x')
    let socket: Socket | undefined
    const left = {
      get path() {
        socket?.destroy()
        return path
      }
    }
    let isFirst = true
    const { ask, url, headers, streams } = await serveResources(
      {
        open: () => (isFirst ? ((isFirst = false), { path }) : left),
        mode: 'download',
        publicUrl: 'http://localhost/mcp'
      },
      { inFront: [(req, _res, next) => (isLoopback(req) || (socket = req.socket), next())] }
    )
    const { result } = await (await ask('a:1')).json()
    const gone = fetchUrl(url + new URL(result.downloadUrl).search, headers, 'HEAD')
    await expect(gone).rejects.toThrow()
    // Whoever is waited for is so until the time is up, which it never is.
    await streams.close({ drain: 600_000 })
  })

  it('gets everything does not have its signal aborted', async () => {
    const contexts: ResourceContext[] = []
    const { ask } = await serveResources(
      (_uri, context) => (contexts.push(context), { body: Buffer.from('x') })
    )
    await whole(ask('a:1'))
    await sleep(20)
    expect(contexts[0]!.signal.aborted).toBe(false)
  })

  it('reads one large chunk slowly is waited for while it reads some of it within each `timeout`', async () => {
    const size = 32 * MEBIBYTE
    const { ask, errors } = await serveResources({
      open: () => ({ body: Readable.from([Buffer.alloc(size, 7)]), size }),
      timeout: 2000
    })
    const { response, ended } = await ask('a:1')
    let taken = 0
    response.on('data', chunk => {
      taken += chunk.length
      if (taken < MEBIBYTE) return
      taken = 0
      response.pause()
      setTimeout(() => response.resume(), 100)
    })
    expect([await ended, errors]).toEqual(['end', []])
  })

  it('stops reading pauses its source, costs no memory, and is disconnected after `timeout`', async () => {
    const { source, given } = endless()
    const { ask, errors } = await serveResources({ open: () => ({ body: source }), timeout: 300 })
    const response = await ask('a:1')
    response.pause()
    const gone = closed(source)
    await gone
    // What sockets hold on both sides, and one chunk or two.
    expect(given()).toBeLessThan(24 * MEBIBYTE)
    expect(errors).toEqual([])
    response.resume()
    expect(await response.ended).not.toBe('end')
  })
})

it('an answer that a middleware in front has begun meanwhile stays whole', async () => {
  const { source } = endless()
  const asked = gate<ServerResponse>()
  const late = gate<Resource>()
  const { ask, errors } = await serveResources(() => late.opened, {
    inFront: [
      (req, res, next) => {
        if (req.headers['x-late'] !== undefined) asked.open(res)
        next()
      }
    ]
  })
  const response = ask('a:1', { 'x-late': 'yes' })
  const res = await asked.opened
  await sleep(20)
  res.writeHead(504).write('too ')
  late.open({ body: source })
  await closed(source)
  res.end('late')
  const answer = await whole(response)
  expect([answer.status, answer.ending, answer.text, errors]).toEqual([504, 'end', 'too late', []])
})

describe('middleware in front that throws at', () => {
  const chunks = (): Resource => ({ body: Readable.from([testBytes(10), testBytes(20)]) })

  it.each<[what: string, resource: () => Resource, patched: RequestHandler]>([
    [
      'a write',
      chunks,
      (_req, res, next) => {
        const write = res.write.bind(res) as (chunk: unknown) => boolean
        let count = 0
        res.write = (chunk: unknown) => {
          if (++count === 2) throw new Error('thrown in front')
          return write(chunk)
        }
        next()
      }
    ],
    [
      'the end',
      chunks,
      (_req, res, next) => {
        res.end = () => {
          throw new Error('thrown in front')
        }
        next()
      }
    ],
    [
      'the last bytes',
      () => ({ size: 30, body: Readable.from([testBytes(10), testBytes(20)]) }),
      (_req, res, next) => {
        res.end = () => {
          throw new Error('thrown in front')
        }
        next()
      }
    ]
  ])('%s breaks the transfer off, and onError hears of it', async (_what, resource, patched) => {
    const { ask, errors, streams } = await serveResources(resource, {
      inFront: [
        (req, res, next) =>
          req.headers['x-patched'] !== undefined && !isLoopback(req)
            ? patched(req, res, next)
            : next()
      ]
    })
    const answer = await whole(ask('a:1', { 'x-patched': 'yes' }))
    expect(answer.ending).not.toBe('end')
    expect(errors).toMatchObject([{ cause: { message: 'thrown in front' } }])
    expect(streams.stats().transfers).toBe(0)
  })
})

it('a dozen requests on one connection cost no listener each', async () => {
  const listeners: number[] = []
  const sockets: Socket[] = []
  const { url, headers } = await serveResources(
    uri => {
      listeners.push(sockets.at(-1)!.listenerCount('close'))
      return { body: Buffer.from(uri) }
    },
    { inFront: [(req, _res, next) => (isLoopback(req) || sockets.push(req.socket), next())] }
  )
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let got = ''
  socket.on('data', chunk => (got += chunk))
  const head = Object.entries({ ...headers, host: 'x', 'content-type': 'application/json' })
  const fields = head.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  for (let i = 10; i < 40; i++) {
    const body = JSON.stringify(request(1, 'resources/stream', { uri: `a:${i}` }))
    socket.write(`POST /mcp HTTP/1.1\r\n${fields}content-length: ${body.length}\r\n\r\n${body}`)
  }
  const bodies = () => [...got.matchAll(/\r\n\r\na:(\d+)/g)].map(([, i]) => Number(i))
  while (bodies().length < 30) await new Promise(resolve => socket.once('data', resolve))
  socket.destroy()
  expect(bodies()).toEqual(Array.from({ length: 30 }, (_, i) => i + 10))
  expect(Math.max(...listeners)).toBeLessThan(10)
})

it('pipelined requests are handled one after another, and dropped when their client leaves', async () => {
  const opened: string[] = []
  const { source } = endless()
  const { url, headers, errors, streams } = await serveResources({
    open: uri => (opened.push(uri), { body: source }),
    timeout: null
  })
  const socket = connect(Number(new URL(url).port), '127.0.0.1').pause()
  const head = Object.entries({ ...headers, host: 'x', 'content-type': 'application/json' })
  const fields = head.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  for (let i = 1; i <= 50; i++) {
    const body = JSON.stringify(request(i, 'resources/stream', { uri: `a:${i}` }))
    socket.write(`POST /mcp HTTP/1.1\r\n${fields}content-length: ${body.length}\r\n\r\n${body}`)
  }
  await until(() => opened.length > 0 && streams.stats().transfers === 50)
  // Time for all of them.
  await sleep(50)
  expect(opened).toEqual(['a:1'])
  const gone = closed(source)
  socket.destroy()
  await gone
  await until(() => streams.stats().transfers === 0)
  expect([opened, errors]).toEqual([['a:1'], []])
})

describe('close()', () => {
  it('finds no timer that would keep the process alive', async () => {
    const timers = () => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length
    const before = timers()
    const silent = new Readable({ read: () => undefined })
    silent.push('x')
    const { ask, streams } = await serveResources(uri =>
      uri === 'a:opening' ? new Promise<never>(() => undefined) : { body: silent }
    )
    const opening = ask('a:opening').catch(() => undefined)
    await ask('a:sending')
    await until(() => streams.stats().transfers === 2)
    const closing = streams.close()
    expect(timers()).toBe(before)
    await Promise.all([streams.close({ drain: 0 }), closing, opening])
  })

  it('lets short transfers end and breaks off the rest', async () => {
    const { source } = endless()
    const last = gate()
    const short = async function* () {
      yield 'x'
      await last.opened
      yield 'y'
    }
    const { ask, streams, errors } = await serveResources(uri =>
      uri === 'a:long' ? { body: source } : { body: Readable.from(short()) }
    )
    const long = await ask('a:long')
    const brief = await ask('a:short')
    const closing = streams.close({ drain: 20 })
    last.open()
    expect([await brief.ended, brief.text]).toEqual(['end', 'xy'])
    await closing
    expect(await long.ended).not.toBe('end')
    expect(source.destroyed).toBe(true)
    expect(errors).toEqual([])
  })

  it('says so to those of which nothing has left yet', async () => {
    const source = new PassThrough()
    const { ask, streams, errors } = await serveResources(() => ({ body: source }))
    const response = whole(ask('a:1'))
    await until(() => source.listenerCount('data') > 0)
    await streams.close({ drain: 0 })
    expect(await errorOf(response, 503)).toMatchObject({ data: { reason: 'closing' } })
    expect([source.destroyed, errors]).toEqual([true, []])
  })

  it('says so to those that have not been opened yet', async () => {
    const { ask, streams, errors } = await serveResources(() => new Promise<never>(() => undefined))
    const response = whole(ask('a:1'))
    await until(() => streams.stats().transfers === 1)
    await streams.close({ drain: 0 })
    expect(await errorOf(response, 503)).toMatchObject({
      code: -31000,
      data: { reason: 'closing' }
    })
    expect(errors).toEqual([])
  })

  it('answers new ones with an error that says so', async () => {
    const { ask, streams } = await serveResources(() => ({ body: Buffer.from('x') }))
    await streams.close({ drain: 0 })
    expect(await errorOf(ask('a:1'), 503)).toMatchObject({
      code: -31000,
      data: { reason: 'closing' }
    })
  })
})
