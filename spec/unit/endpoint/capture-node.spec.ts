// What our capture takes for granted of Node, without us: on a new Node that behaves otherwise,
// the name of the test says where.

import { afterEach, describe, expect, it } from '@jest/globals'
import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import {
  type IncomingMessage,
  ServerResponse,
  validateHeaderName,
  validateHeaderValue
} from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { gate } from '../../helpers/gate.js'
import { closeAll, listen } from '../../helpers/listen.js'
import { post } from '../../helpers/mcp.js'
import { exchange, requestHead, requestOf } from '../../features/mounting/on-the-wire.js'
import { SSE_TYPE } from './capture-case.js'

afterEach(closeAll)

type Handle = (res: ServerResponse, req: IncomingMessage) => unknown

const turn = () => new Promise<void>(resolve => setImmediate(resolve))
const codeOf = (error: unknown) => (error as NodeJS.ErrnoException | null | undefined)?.code

/** What comes back for a POST, byte by byte. */
async function bytesOf(handle: Handle, method = 'POST'): Promise<string> {
  const { port } = await listen((req, res) => handle(res, req))
  return exchange(port, requestOf('{}', { method }))
}

/**
 * Runs a handler whose client leaves once the head is there, and waits until the socket has closed.
 */
async function whileClientLeaves(
  handle: Handle,
  leave: 'destroy' | 'reset' = 'destroy'
): Promise<void> {
  const left = gate()
  const { url, server } = await listen((req, res) => handle(res, req))
  server.once('connection', (socket: Socket) => socket.once('close', () => left.open()))
  const response = await post(url, {})
  response[leave]()
  await left.opened
  await turn()
}

describe('a method of a response', () => {
  const NAMES = [
    'writeHead',
    'write',
    'end',
    'flushHeaders',
    'setHeader',
    'getHeader',
    'destroy',
    '_implicitHeader',
    'emit'
  ] as const

  it.each(NAMES)('%s lies on its prototype, and may be replaced on the response', async name => {
    const found = await new Promise<unknown>(resolve => {
      void bytesOf(res => {
        const record = res as unknown as Record<string, unknown>
        resolve([
          Object.hasOwn(res, name),
          typeof record[name],
          Reflect.set(res, name, record[name])
        ])
        res.end()
      })
    })
    expect(found).toEqual([false, 'function', true])
  })

  it.each<[string, string[], (res: ServerResponse) => unknown]>([
    ['a write without a head asks writeHead for one', ['writeHead'], res => void res.write('x')],
    ['an end without a head asks writeHead for one', ['writeHead'], res => res.end('x')],
    [
      'flushHeaders without a head asks writeHead for one',
      ['writeHead'],
      res => res.flushHeaders()
    ],
    [
      'setHeaders sets them one by one',
      ['setHeader', 'setHeader'],
      res =>
        res.setHeaders(
          new Map([
            ['a', '1'],
            ['b', '2']
          ])
        )
    ],
    [
      'pipe() calls write and end',
      ['write', 'end'],
      res => Readable.from(['x']).pipe(res.writeHead(200))
    ]
  ])('%s, by way of the response', async (_name, expected, act) => {
    const calls: string[] = []
    await bytesOf(async res => {
      for (const name of ['writeHead', 'write', 'end', 'setHeader'] as const) {
        const original = res[name] as (...args: unknown[]) => unknown
        const patch = function (this: ServerResponse, ...args: unknown[]) {
          calls.push(name)
          return original.apply(this, args)
        }
        Object.assign(res, { [name]: patch })
      }
      act(res)
      await turn()
      await turn()
      calls.push('|')
      if (!res.writableEnded) res.end()
    })
    const own = calls.slice(0, calls.indexOf('|'))
    for (const name of expected) expect(own).toContain(name)
    expect(own.filter(name => name === expected[0])).toHaveLength(
      expected.filter(name => name === expected[0]).length
    )
  })
})

describe('a head', () => {
  it('that is given to writeHead alone is not to be had by getHeader; one that was set before is', async () => {
    const seen: unknown[] = []
    await bytesOf(res => {
      res.writeHead(200, SSE_TYPE)
      seen.push(res.getHeader('content-type'))
      res.end()
    })
    await bytesOf(res => {
      res.setHeader('content-type', 'text/event-stream').writeHead(200)
      seen.push(res.getHeader('Content-Type'))
      res.end()
    })
    expect(seen).toEqual([undefined, 'text/event-stream'])
  })

  it('is `_header` and `headersSent` once it is written', async () => {
    const seen: unknown[] = []
    await bytesOf(res => {
      const { _header } = res as unknown as { _header: string | null }
      seen.push(_header, res.headersSent)
      res.writeHead(200)
      seen.push(typeof (res as unknown as { _header: string })._header, res.headersSent)
      res.end()
    })
    expect(seen).toEqual([null, false, 'string', true])
  })

  it('leaves with what is written in the same tick, and what nextTick adds, in one piece', async () => {
    const { port } = await listen((_req, res) => {
      process.nextTick(() => {
        res.writeHead(200, SSE_TYPE)
        res.write('data: 1\n\n')
      })
    })
    const [first] = await new Promise<Buffer[]>(resolve => {
      void exchange(port, socket => {
        socket.once('data', chunk => {
          resolve([chunk])
          socket.destroy()
        })
        socket.write(requestHead({ method: 'GET' }))
      })
    })
    expect(first!.toString()).toMatch(/^HTTP\/1\.1 200 OK\r\n.*data: 1\n\n/s)
  })

  it('gets a content-length only where it is implicit and the body is known', async () => {
    expect(await bytesOf(res => res.end('12'))).toMatch(/^Content-Length: 2\r$/m)
    expect(await bytesOf(res => res.writeHead(200).end('12'))).toMatch(
      /^Transfer-Encoding: chunked\r$/m
    )
  })

  it.each<[string, (res: ServerResponse) => unknown, () => void]>([
    ['a value', res => res.setHeader('x', 'a\nb'), () => validateHeaderValue('x', 'a\nb')],
    ['a value beyond Latin-1', res => res.setHeader('x', '€'), () => validateHeaderValue('x', '€')],
    ['a name', res => res.setHeader('x y', ''), () => validateHeaderName('x y')],
    [
      'a status message',
      res => res.writeHead(200, 'a\nb'),
      () => validateHeaderValue('statusMessage', 'a\nb')
    ]
  ])(
    'with %s that it may not have is refused as validateHeader… would',
    async (_name, act, validate) => {
      const caught = (work: () => unknown) => {
        try {
          work()
          return 'fine'
        } catch (error) {
          return codeOf(error)
        }
      }
      let code: unknown
      await bytesOf(res => {
        code = caught(() => act(res))
        res.writeHead(500, 'Failed').end()
      })
      expect(code).toMatch(/^ERR_/)
      expect(caught(validate)).toBe(code)
    }
  )
})

describe('the state of a response', () => {
  it.each(['headersSent', 'closed', 'writableEnded', 'writableFinished', 'errored'])(
    '%s is an accessor of the prototype',
    name => {
      let prototype: object | null = ServerResponse.prototype
      while (prototype !== null && !Object.hasOwn(prototype, name)) {
        prototype = Object.getPrototypeOf(prototype) as object | null
      }
      expect(typeof Object.getOwnPropertyDescriptor(prototype!, name)!.get).toBe('function')
    }
  )

  it.each(['destroyed', 'finished'] as const)('%s is a plain value that may be set', async name => {
    let descriptor: PropertyDescriptor | undefined
    await bytesOf(res => {
      descriptor = Object.getOwnPropertyDescriptor(res, name)
      res.end()
    })
    expect(descriptor).toMatchObject({ value: false, writable: true })
  })

  it.each(['aborted', 'destroyed'] as const)('%s of a request may be set', async name => {
    let value: unknown
    await bytesOf((res, req) => {
      req[name] = true
      value = req[name]
      req[name] = false
      res.end(String(req[name]))
    })
    expect(value).toBe(true)
  })

  it('socket of a request is a plain value; that of a response is gone before its close', async () => {
    const seen: unknown[] = []
    await bytesOf((res, req) => {
      seen.push(Object.getOwnPropertyDescriptor(req, 'socket')?.writable, res.socket === req.socket)
      res.on('close', () => seen.push(res.socket))
      res.end()
    })
    await turn()
    expect(seen).toEqual([true, true, null])
  })

  it('destroyed lets what is written drop, without an event', async () => {
    const seen: unknown[] = []
    await whileClientLeaves(res => {
      res.on('error', error => seen.push(codeOf(error)))
      res.writeHead(200, SSE_TYPE).flushHeaders()
      res.on('close', () =>
        seen.push(
          res.destroyed,
          res.write('x', error => seen.push(codeOf(error)))
        )
      )
    })
    expect(seen).toEqual([true, false, 'ERR_STREAM_DESTROYED'])
  })
})

describe('the events of a response', () => {
  it('go through emit of the response: finish, then close', async () => {
    const events: string[] = []
    await bytesOf(res => {
      const { emit } = res
      res.emit = function (this: ServerResponse, event: string, ...args: unknown[]) {
        events.push(event)
        return emit.call(this, event, ...args)
      } as typeof emit
      res.end('x')
    })
    await turn()
    expect(events.filter(event => event === 'finish' || event === 'close')).toEqual([
      'finish',
      'close'
    ])
  })

  it.each(['destroy', 'reset'] as const)(
    'when its client leaves (%s): close, and for a request that nobody has read aborted, error and close',
    async leave => {
      const events: string[] = []
      await whileClientLeaves((res, req) => {
        for (const [name, emitter] of Object.entries({ res, req })) {
          const { emit } = emitter
          emitter.emit = function (this: typeof emitter, event: string, ...args: unknown[]) {
            if (['finish', 'close', 'aborted', 'error'].includes(event))
              events.push(`${name} ${event}`)
            return (emit as (...args: unknown[]) => boolean).call(this, event, ...args)
          } as never
        }
        req.on('error', () => undefined)
        res.writeHead(200, SSE_TYPE).flushHeaders()
      }, leave)
      expect(events.toSorted()).toEqual(['req aborted', 'req close', 'req error', 'res close'])
    }
  )

  it('a request closes by itself once its body has been read', async () => {
    const events: string[] = []
    await bytesOf(async (res, req) => {
      req.on('close', () => events.push(`close ${req.complete}`))
      req.on('aborted', () => events.push('aborted'))
      req.resume()
      await once(req, 'end')
      await turn()
      events.push('here')
      res.end()
    })
    expect(events).toEqual(['close true', 'here'])
  })
})

describe('a request', () => {
  it('gets its body by push, whether anybody reads or not', async () => {
    const pushed: unknown[] = []
    const text = await bytesOf(async (res, req) => {
      const { push } = req
      const ended = gate()
      req.push = function (this: IncomingMessage, chunk: Buffer | null, encoding?: BufferEncoding) {
        pushed.push(chunk === null ? null : chunk.toString())
        const hasRoom = push.call(this, chunk, encoding)
        if (chunk === null) ended.open()
        return hasRoom
      }
      await ended.opened
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      res.end(Buffer.concat(chunks))
    })
    expect(pushed).toEqual(['{}', null])
    expect(text).toMatch(/\r\n\{\}$/)
  })

  it('gives back what is put back', async () => {
    const text = await bytesOf(async (res, req) => {
      await once(req, 'readable')
      const bytes = req.read() as Buffer
      req.unshift(bytes)
      for await (const chunk of req) res.write(chunk)
      res.end()
    })
    expect(text).toContain('{}')
  })
})

describe('a socket', () => {
  it('is destroyed through its own method, by handlers and by Node; Node gives errors a code', async () => {
    const errors: unknown[] = []
    await whileClientLeaves((res, req) => {
      const { socket } = req
      const { destroy } = socket
      socket.destroy = function (this: Socket, error?: Error) {
        errors.push(error === undefined ? 'none' : codeOf(error))
        return destroy.call(this, error)
      }
      res.writeHead(200, SSE_TYPE).flushHeaders()
    }, 'reset')
    expect(errors.length).toBeGreaterThan(0)
    expect(errors).not.toContain(undefined)
  })

  it('that its client has ended is destroyed by Node once the last byte is out, in the name of who wrote it', async () => {
    const storage = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const destroyed = gate()
    const { url } = await listen((req, res) => {
      req.resume()
      req.once('end', () =>
        storage.run('the writer', () => {
          const { socket } = req
          const { destroy } = socket
          socket.destroy = function (this: Socket, error?: Error) {
            seen.push([storage.getStore(), error, this.writableFinished, this.destroyed])
            destroyed.open()
            return destroy.call(this, error)
          }
          res.writeHead(200, SSE_TYPE).write('x'.repeat(8_000_000))
        })
      )
    })
    const response = await post(url, {})
    response.pause()
    response.socket.end()
    await turn()
    response.resume()
    await destroyed.opened
    expect(seen[0]).toEqual(['the writer', undefined, true, false])
  })
})
