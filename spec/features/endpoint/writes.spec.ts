// `write`, `end` and what they tell their callers: as on a response of Node's, whoever reads the
// stream.

import { describe, expect, it } from '@jest/globals'
import type { ServerResponse } from 'node:http'
import { finished, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Awaitable, gate } from '../../helpers/gate.js'
import { del, get, result } from '../../helpers/mcp.js'
import { streamUrl } from '../../helpers/serve.js'
import {
  type Behave,
  blockOf,
  callBare,
  errorFor,
  HEADERS,
  note,
  NOTE,
  RESULT,
  serveCase,
  SSE_TYPE
} from './setup.js'

const codeOf = (error: unknown) =>
  (error as NodeJS.ErrnoException | null | undefined)?.code ?? 'fine'
const turn = () => new Promise<void>(resolve => setImmediate(resolve))

describe('a write', () => {
  const WIDE = blockOf(note('grün €'))
  const encoded = (encoding: BufferEncoding) => Buffer.from(WIDE).toString(encoding)
  const padded = Buffer.concat([Buffer.from('---'), Buffer.from(WIDE), Buffer.from('---')])

  it.each<[string, (res: ServerResponse) => unknown]>([
    ['of text', res => res.write(WIDE)],
    ['of text with its encoding', res => res.write(WIDE, 'utf8')],
    ['of base64', res => res.write(encoded('base64'), 'base64')],
    ['of hex', res => res.write(encoded('hex'), 'hex')],
    ['of binary', res => res.write(encoded('latin1'), 'binary')],
    ['of a buffer', res => res.write(Buffer.from(WIDE))],
    ['of a buffer and an encoding that means nothing', res => res.write(Buffer.from(WIDE), 'hex')],
    ['of a Uint8Array', res => res.write(new Uint8Array(Buffer.from(WIDE)))],
    ['of a view into more', res => res.write(padded.subarray(3, -3))],
    [
      'of a buffer that is used again',
      res => {
        const scratch = Buffer.from(WIDE)
        res.write(scratch)
        scratch.fill(0)
      }
    ],
    [
      'of a buffer that is used again, in halves',
      res => {
        const scratch = Buffer.from(WIDE)
        res.write(scratch.subarray(0, 20))
        scratch.fill(0, 0, 20)
        res.write(scratch.subarray(20))
        scratch.fill(0)
      }
    ],
    ['of nothing', res => res.write('') && res.write(Buffer.alloc(0)) && res.write(WIDE)]
  ])('%s', async (_name, write) => {
    const { call } = await serveCase(res => {
      res.writeHead(200, SSE_TYPE)
      write(res)
      res.end(RESULT)
    })
    const response = await call()
    await response.ended
    expect(response.messages()).toEqual([note('grün €'), result(1, {})])
  })

  it.each<[string, (res: ServerResponse) => unknown]>([
    ['null', res => res.write(null)],
    ['undefined', res => res.write(undefined)],
    ['a number', res => res.write(42)],
    ['an object', res => res.write({})],
    ['an ArrayBuffer', res => res.write(new ArrayBuffer(4))],
    ['a number at the end', res => res.end(42)],
    ['an object at the end', res => res.end({})]
  ])('of %s throws as it does without us, and harms nothing', async (_name, write) => {
    const codes: string[] = []
    const behave: Behave = res => {
      res.writeHead(200, SSE_TYPE).write(NOTE)
      try {
        write(res)
        codes.push('fine')
      } catch (error) {
        codes.push(codeOf(error))
      }
      res.end(RESULT)
    }
    const bare = await callBare(behave)
    const served = await serveCase(behave)
    const response = await served.call()
    await response.ended
    expect(response.messages()).toEqual(bare.messages())
    expect(codes[1]).toBe(codes[0])
    expect(codes[0]).toMatch(/^ERR_/)
    await served.expectNeighbourUnharmed()
  })
})

/** Runs the same endpoint bare and behind us; it notes what it is told. */
async function bothTold(
  behave: (res: ServerResponse, tell: (what: string) => void) => unknown
): Promise<[bare: string[], ours: string[]]> {
  const logs: [string[], string[]] = [[], []]
  const telling =
    (log: string[]): Behave =>
    res =>
      behave(res, what => log.push(what))
  const bare = await callBare(telling(logs[0]))
  const served = await serveCase(telling(logs[1]))
  const response = await served.call()
  await response.ended
  for (let i = 0; i < 5; i++) await turn()
  expect(response.messages()).toEqual(bare.messages())
  await served.expectNeighbourUnharmed()
  return logs
}

describe('the callbacks', () => {
  it('of write and end are called once, without an error, in order', async () => {
    const [bare, ours] = await bothTold((res, tell) => {
      res.on('finish', () => tell('finish')).on('close', () => tell('close'))
      res.writeHead(200, SSE_TYPE)
      res.write(NOTE, error => tell(`write ${codeOf(error)}`))
      res.write(NOTE, 'utf8', error => tell(`write with encoding ${codeOf(error)}`))
      res.end(RESULT, 'utf8', () => tell('end'))
    })
    expect(bare).toEqual(
      ['write fine', 'write with encoding fine', 'end', 'finish', 'close'].toSorted(byOrderIn(bare))
    )
    expect(ours.toSorted()).toEqual(bare.toSorted())
    expect(ours.indexOf('write fine')).toBeLessThan(ours.indexOf('end'))
    expect(ours.slice(-2)).toEqual(['finish', 'close'])
  })

  it.each<[string, (res: ServerResponse, done: () => void) => unknown]>([
    ['end(callback)', (res, done) => res.end(done)],
    ['end(chunk, callback)', (res, done) => res.end(RESULT, done)],
    ['end(chunk, encoding, callback)', (res, done) => res.end(RESULT, 'utf8', done)],
    ['end(undefined, callback)', (res, done) => res.end(undefined, done)],
    ['end(null, undefined, callback)', (res, done) => res.end(null, undefined as never, done)]
  ])('of %s is called once', async (_name, end) => {
    let calls = 0
    const served = await serveCase(res => {
      res.writeHead(200, SSE_TYPE)
      if (end.toString().includes('RESULT')) return end(res, () => calls++)
      res.write(RESULT)
      return end(res, () => calls++)
    })
    const response = await served.call()
    await response.ended
    await turn()
    expect(response.messages()).toEqual([result(1, {})])
    expect(calls).toBe(1)
  })

  // Without an error Node gives `null` or nothing, as its version has it.
  it('are given what Node gives them', async () => {
    const [bare, ours] = await bothTold((res, tell) => {
      res.writeHead(200, SSE_TYPE)
      res.write(NOTE, (...args) => tell(`write ${String(args[0] ?? null)}`))
      res.end(RESULT, (...args: unknown[]) => tell(`end ${String(args[0] ?? null)}`))
    })
    expect(ours).toEqual(bare)
  })

  it.each([0, false, Number.NaN, ''])('of end(%p, callback) is called once', async value => {
    const [bare, ours] = await bothTold((res, tell) => {
      res.writeHead(200, SSE_TYPE).write(RESULT)
      res.end(value, () => tell('end'))
    })
    expect(bare).toEqual(['end'])
    expect(ours).toEqual(bare)
  })

  it('return what Node returns', async () => {
    const returned: unknown[] = []
    const served = await serveCase(res => {
      returned.push(
        res.writeHead(200, SSE_TYPE) === res,
        res.write(NOTE),
        res.flushHeaders(),
        res.end(RESULT) === res,
        res.end() === res
      )
    })
    await (
      await served.call()
    ).ended
    expect(returned).toEqual([true, true, undefined, true, true])
  })
})

const byOrderIn = (list: string[]) => (a: string, b: string) => list.indexOf(a) - list.indexOf(b)

describe('after the end', () => {
  it('a write is refused: its callback gets the error, nothing crashes, and the client sees the stream as it was', async () => {
    const told = new Awaitable<string>()
    const served = await serveCase(async res => {
      res.writeHead(200, SSE_TYPE).end(RESULT)
      told.push(`returns ${res.write(NOTE, error => told.push(`at once ${codeOf(error)}`))}`)
      res.write(NOTE)
      await turn()
      res.write(NOTE, 'utf8', error => told.push(`later ${codeOf(error)}`))
      res.write(NOTE)
    })
    const response = await served.call()
    await response.ended
    await told.nth(3)
    expect(told.toSorted()).toEqual([
      'at once ERR_STREAM_WRITE_AFTER_END',
      'later ERR_STREAM_WRITE_AFTER_END',
      'returns false'
    ])
    expect(response.messages()).toEqual([result(1, {})])
    expect((await served.again(response)).messages()).toEqual([result(1, {})])
    await served.expectNeighbourUnharmed()
  })

  it('an end with a chunk tells its callback what a write does', async () => {
    const [bare, ours] = await bothTold((res, tell) => {
      res.writeHead(200, SSE_TYPE).end(RESULT)
      res.on('error', () => undefined)
      res.end(NOTE, () => tell('no encoding'))
      res.end(NOTE, 'utf8', ((error?: Error) => tell(codeOf(error))) as () => void)
    })
    expect(bare).toEqual(['no encoding', 'ERR_STREAM_WRITE_AFTER_END'])
    expect(ours).toEqual(bare)
  })

  it('a write to a response that the endpoint has destroyed tells its callback so', async () => {
    const told: string[][] = []
    const destroyed =
      (log: string[]): Behave =>
      res => {
        res.writeHead(200, SSE_TYPE).write(RESULT)
        res.destroy()
        res.write(NOTE, error => log.push(codeOf(error)))
      }
    for (const call of [callBare, async (behave: Behave) => (await serveCase(behave)).call()]) {
      const log: string[] = []
      const response = await call(destroyed(log)).catch(() => undefined)
      await response?.ended
      await turn()
      told.push(log)
    }
    expect(told).toEqual([['ERR_STREAM_DESTROYED'], ['ERR_STREAM_DESTROYED']])
  })

  it('a second end is harmless, with and without a chunk', async () => {
    let calls = 0
    const served = await serveCase(async res => {
      res.writeHead(200, SSE_TYPE).end(RESULT)
      res.end(() => calls++)
      res.end(RESULT, () => calls++)
      await turn()
      res.end()
      res.end(NOTE)
    })
    const response = await served.call()
    await response.ended
    await turn()
    expect(calls).toBe(2)
    expect(response.messages()).toEqual([result(1, {})])
    await served.expectNeighbourUnharmed()
  })

  it('a destroy is harmless', async () => {
    const served = await serveCase(res => {
      res.writeHead(200, SSE_TYPE).end(RESULT)
      res.destroy()
    })
    const response = await served.call()
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([result(1, {})])
    await served.expectNeighbourUnharmed()
  })

  it.each<[string, (url: string) => Promise<unknown>]>([
    ['a stream that its client has cancelled', url => del(url, HEADERS)]
  ])('of %s, writes are refused', async (_name, over) => {
    const told = new Awaitable<string>()
    const go = gate()
    const served = await serveCase(async res => {
      res.on('close', () => told.push('close'))
      res.writeHead(200, SSE_TYPE).write(NOTE)
      await go.opened
      told.push(`returns ${res.write(NOTE, error => told.push(codeOf(error)))}`)
      res.end(RESULT)
      res.end()
    })
    const response = await served.call()
    await response.nextMessage()
    await over(streamUrl(response, served.url))
    await told.nth(1)
    go.open()
    await told.nth(3)
    expect(told.slice(0, 2)).toEqual(['close', 'returns false'])
    expect(told[2]).toMatch(/^ERR_/)
    await served.expectNeighbourUnharmed()
  })
})

describe('what is piped into a response', () => {
  const source = (from: number, to: number) =>
    Readable.from(Array.from({ length: to - from }, (_, i) => blockOf(note(from + i))))

  it.each<[string, (res: ServerResponse) => unknown]>([
    ['by pipe()', res => Readable.from([NOTE, RESULT]).pipe(res)],
    ['by pipeline()', res => pipeline(Readable.from([NOTE, RESULT]), res)],
    [
      'by pipeline(), from a generator',
      res =>
        pipeline(async function* () {
          yield NOTE
          await turn()
          yield RESULT
        }, res)
    ]
  ])('%s arrives', async (_name, pipe) => {
    const served = await serveCase(res => pipe(res.writeHead(200, SSE_TYPE)))
    const response = await served.call()
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([note(1), result(1, {})])
    await served.expectNeighbourUnharmed()
  })

  it('goes on when its client leaves, and tells its source no lie', async () => {
    const go = gate()
    const told = new Awaitable<string>()
    const served = await serveCase(res => {
      res.writeHead(200, SSE_TYPE)
      finished(res, error => told.push(`finished ${codeOf(error)}`))
      const source = async function* () {
        yield NOTE
        await go.opened
        for (let n = 2; n <= 2000; n++) yield blockOf(note(n))
        yield RESULT
      }
      pipeline(source, res).then(
        () => told.push('pipeline fine'),
        error => told.push(`pipeline ${codeOf(error)}`)
      )
    })
    const response = await served.call()
    await response.nextMessage()
    response.destroy()
    await served.connections(1)
    go.open()
    await told.nth(2)
    expect(told.toSorted()).toEqual(['finished fine', 'pipeline fine'])
    const messages = (await served.again(response)).messages()
    expect(messages.slice(0, -1).map(({ params }) => params.data)).toEqual(
      Array.from({ length: 2000 }, (_, i) => i + 1)
    )
    expect(messages.at(-1)).toEqual(result(1, {}))
    await served.expectNeighbourUnharmed()
  })

  it('waits for a client that does not read, and goes on when it does', async () => {
    const behave: Behave = res =>
      pipeline(source(0, 2000), res.writeHead(200, SSE_TYPE), { end: false }).then(() =>
        res.end(RESULT)
      )
    const served = await serveCase(behave, { maxStreamBytes: 20_000 })
    const response = await served.call()
    response.pause()
    await turn()
    response.resume()
    expect(await response.ended).toBe('end')
    const messages = response.messages()
    expect(messages).toHaveLength(2001)
    expect(messages.at(-1)).toEqual(result(1, {}))
    await served.expectNeighbourUnharmed()
  })

  it('fails with its source: an error for the request', async () => {
    const source = async function* () {
      yield NOTE
      await turn()
      throw new Error('the source has failed')
    }
    const served = await serveCase(res =>
      pipeline(source, res.writeHead(200, SSE_TYPE)).catch(() => undefined)
    )
    const response = await served.call()
    expect(await response.ended).toBe('end')
    expect(response.messages()).toEqual([note(1), errorFor(1)])
    await served.expectNeighbourUnharmed()
  })

  it('fails when the stream is abandoned, and lets its source go', async () => {
    const told = new Awaitable<string>()
    const served = await serveCase(
      res => {
        res.writeHead(200, SSE_TYPE)
        const source = new Readable({ read: () => undefined })
        source.push(NOTE)
        source.on('close', () => told.push('source closed'))
        pipeline(source, res).catch(error => told.push(codeOf(error)))
      },
      { resumeInterval: { min: 0, max: 0.05 } }
    )
    const response = await served.call()
    await response.nextMessage()
    response.destroy()
    await told.nth(2)
    expect(told.toSorted()).toEqual(['ERR_STREAM_PREMATURE_CLOSE', 'source closed'])
    await served.expectNeighbourUnharmed()
  })
})

it('a close that somebody emits by hand reaches all listeners, and ends nothing', async () => {
  const [bare, ours] = await bothTold(async (res, tell) => {
    res.once('close', () => tell('close'))
    res.writeHead(200, SSE_TYPE).write(NOTE)
    await turn()
    res.emit('close')
    tell(`emitted, destroyed: ${res.destroyed}`)
    await turn()
    res.end(RESULT)
  })
  expect(bare).toEqual(['close', 'emitted, destroyed: false'])
  expect(ours).toEqual(bare)
})

it('a listener for errors hears nothing of a client that resets', async () => {
  const go = gate()
  const told: string[] = []
  const served = await serveCase(async (res, req) => {
    res.on('error', error => told.push(`res ${codeOf(error)}`))
    req.on('error', error => told.push(`req ${codeOf(error)}`))
    res.writeHead(200, SSE_TYPE).write(NOTE)
    await go.opened
    for (let n = 0; n < 100; n++) res.write(NOTE)
    res.end(RESULT)
  })
  const response = await served.call()
  await response.nextMessage()
  response.reset()
  await served.connections(1)
  go.open()
  const second = await get(streamUrl(response, served.url), HEADERS)
  await second.ended
  expect(second.messages()).toHaveLength(102)
  expect(told).toEqual([])
  await served.expectNeighbourUnharmed()
})
