// `write`, `end` and what they tell their callers: as on a response of Node's, whoever reads the
// stream.

import { describe, expect } from '@jest/globals'
import type { ServerResponse } from 'node:http'
import { finished, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setImmediate } from 'node:timers/promises'
import { gate } from '../../helpers/gate.js'
import {
  closed,
  cut,
  drop,
  end,
  go,
  meanwhile,
  post,
  take,
  turn
} from '../../helpers/talk/client.js'
import { destroy, hold, named, turn as later, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo, type World } from '../../helpers/talk/index.js'
import {
  again,
  at,
  beside,
  codeOf,
  ends,
  head,
  says,
  telling,
  type Tell,
  type Told
} from './script.js'
import { blockOf, NODE, note, NOTE, RESULT, SSE_TYPE } from './setup.js'

const LATE = 'ERR_STREAM_WRITE_AFTER_END'

type Writes = (res: ServerResponse) => unknown

/** A call whose client sees these, and no more. */
const seen = (...messages: unknown[]) => ({
  client: [post, end],
  sees: [primer, ...messages, 'result', 'end']
})

describe('a write', () => {
  const WIDE = blockOf(note('grün €'))
  const encoded = (encoding: BufferEncoding) => Buffer.from(WIDE).toString(encoding)
  const padded = Buffer.concat([Buffer.from('---'), Buffer.from(WIDE), Buffer.from('---')])

  conversation.each<[string, Writes]>([
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
  ])('%s', (_what, write) =>
    beside({ endpoint: [head, ({ res }) => write(res), ends(RESULT)], ...seen(note('grün €')) })
  )
})

/** What a handler does behind its head, and what it tells of it. */
type Does = (res: ServerResponse, tell: Tell) => unknown

/** The same is seen and told. */
describe.each<[string, World]>([
  ['without us', { app: at(([, ...endpoint]) => NODE(endpoint)) }],
  ['behind us', { app: at(NODE) }]
])('%s', (where, world) => {
  const alike = { ...world, options: { primer: 'never' as const }, client: [post, end] }

  conversation.each<[string, Writes, code?: string]>([
    ['null', res => res.write(null), 'ERR_STREAM_NULL_VALUES'],
    ['undefined', res => res.write(undefined)],
    ['a number', res => res.write(42)],
    ['an object', res => res.write({})],
    ['an ArrayBuffer', res => res.write(new ArrayBuffer(4))],
    ['a number at the end', res => res.end(42)],
    ['an object at the end', res => res.end({})]
  ])('a write of %s throws, and harms nothing', (_what, write, code = 'ERR_INVALID_ARG_TYPE') => {
    const attempt: Line = ({ res }) =>
      expect(() => write(res)).toThrow(expect.objectContaining({ code }))
    const endpoint = [head, says(NOTE), attempt, ends(RESULT)]
    return beside({ ...alike, endpoint, sees: [1, 'result', 'end'] })
  })

  const ORDER = ['write fine', 'encoded fine', 'end', 'finish', 'close']
  const odd = [[], [undefined], [null, undefined], [0], [false], [Number.NaN], ['']] as never[][]
  conversation.each<[string, told: Told, notes: number, Does]>([
    [
      'write and end: once, without an error',
      // Node itself has its own order.
      where === 'behind us' ? ORDER : new Set(ORDER),
      2,
      (res, tell) => {
        res.on('finish', () => tell('finish')).on('close', () => tell('close'))
        res.write(NOTE, error => tell(`write ${codeOf(error)}`))
        res.write(NOTE, 'utf8', error => tell(`encoded ${codeOf(error)}`))
        res.end(RESULT, 'utf8', () => tell('end'))
      }
    ],
    [
      // Node gives `null` or nothing, as its version has it.
      'write and end: with nothing',
      ['write null', 'end null'],
      1,
      (res, tell) => {
        res.write(NOTE, (...args) => tell(`write ${String(args[0] ?? null)}`))
        res.end(RESULT, (...args: unknown[]) => tell(`end ${String(args[0] ?? null)}`))
      }
    ],
    ['end(chunk)', ['end'], 0, (res, tell) => res.end(RESULT, () => tell('end'))],
    ['end(chunk, encoding)', ['end'], 0, (res, tell) => res.end(RESULT, 'utf8', () => tell('end'))],
    ...odd.map((args): [string, Told, number, Does] => [
      `end(${args.map(String).join(', ')})`,
      ['end'],
      0,
      (res, tell) => res.write(RESULT) && res.end(...args, () => tell('end'))
    ]),
    [
      'an end with a chunk after the end: as of a write',
      ['no encoding', LATE],
      0,
      (res, tell) => {
        res.end(RESULT).on('error', () => undefined)
        res.end(NOTE, () => tell('no encoding'))
        res.end(NOTE, 'utf8', ((error?: Error) => tell(codeOf(error))) as () => void)
      }
    ]
  ])('the callbacks of %s', (_what, told, notes, does) =>
    telling(told, tell => ({
      ...alike,
      endpoint: [head, ({ res }) => does(res, tell)],
      sees: [...upTo(notes).fill(1), 'result', 'end']
    }))
  )

  conversation(
    'a write to a response that the endpoint has destroyed tells its callback so',
    telling(['ERR_STREAM_DESTROYED'], tell => ({
      ...alike,
      endpoint: [head, says(RESULT), destroy, says(NOTE, tell)],
      client: [meanwhile(post)]
    }))
  )

  conversation(
    'a close that somebody emits by hand reaches all listeners, and ends nothing',
    telling(['close', 'not destroyed'], tell => ({
      ...alike,
      endpoint: [
        ({ res }) => res.once('close', () => tell('close')),
        ...[head, says(NOTE), later],
        ({ res }) => res.emit('close'),
        ({ res }) => res.destroyed || tell('not destroyed'),
        ...[later, ends(RESULT)]
      ],
      sees: [1, 'result', 'end']
    }))
  )
})

conversation(
  'the methods return what Node returns',
  beside({
    endpoint: [
      ({ res }) => {
        const returned = [res.writeHead(200, SSE_TYPE), res.write(NOTE), res.flushHeaders()]
        expect([...returned, res.end(RESULT), res.end()]).toEqual([res, true, undefined, res, res])
      }
    ],
    ...seen(1)
  })
)

describe('after the end', () => {
  const twice = [primer, 'result', 'end']
  const refused = (tell: Tell): Line =>
    named('refused', ({ res }) => tell(`returns ${res.write(NOTE, error => tell(codeOf(error)))}`))

  conversation(
    'a write is refused: its callback gets the error, and the client sees the stream as it was',
    telling(['returns false', LATE, LATE], tell => ({
      endpoint: [
        ...[head, ends(RESULT), refused(tell), says(NOTE)],
        later,
        ({ res }) => res.write(NOTE, 'utf8', error => tell(codeOf(error))),
        says(NOTE)
      ],
      client: [post, end, ...again],
      sees: [...twice, ...twice]
    }))
  )

  conversation(
    'a second end is harmless, with and without a chunk',
    telling(['1', '2'], tell => ({
      endpoint: [
        ...[head, ends(RESULT)],
        ({ res }) => res.end(() => tell('1')),
        ({ res }) => res.end(RESULT, () => tell('2')),
        ...[later, ends(), ends(NOTE)]
      ],
      ...seen()
    }))
  )

  conversation(
    'a destroy is harmless',
    beside({ endpoint: [head, ends(RESULT), destroy], ...seen() })
  )

  conversation(
    'of a stream that its client has cancelled, writes are refused',
    telling(['close', 'returns false', 'ERR_STREAM_DESTROYED'], tell => ({
      endpoint: [
        ({ res }) => res.on('close', () => tell('close')),
        ...[head, says(NOTE), hold],
        ...[refused(tell), ends(RESULT), ends()]
      ],
      client: [post, take(2), drop, closed, go],
      sees: [primer, 1, 'end', '204']
    }))
  )
})

describe('what is piped into a response', () => {
  const blocks = (from: number, to: number) =>
    upTo(to)
      .slice(from - 1)
      .map(n => blockOf(note(n)))
  async function* failing() {
    yield NOTE
    await setImmediate()
    throw new Error('the source has failed')
  }
  async function* slow() {
    yield NOTE
    await setImmediate()
    yield RESULT
  }

  conversation.each<[string, Writes]>([
    ['by pipe()', res => Readable.from([NOTE, RESULT]).pipe(res)],
    ['by pipeline()', res => pipeline(Readable.from([NOTE, RESULT]), res)],
    ['by pipeline(), from a generator', res => pipeline(slow, res)]
  ])('%s arrives', (_how, pipe) => beside({ endpoint: [head, ({ res }) => pipe(res)], ...seen(1) }))

  const gone = gate()
  async function* many() {
    yield NOTE
    await gone.opened
    yield* blocks(2, 2000)
    yield RESULT
  }
  conversation(
    'goes on when its client leaves, and tells its source no lie',
    telling(new Set(['finished fine', 'pipeline fine']), tell => ({
      endpoint: [
        head,
        ({ res }) => finished(res, error => tell(`finished ${codeOf(error)}`)),
        ({ res }) =>
          pipeline(many, res)
            .catch(codeOf)
            .then(code => tell(`pipeline ${code ?? 'fine'}`))
      ],
      client: [post, take(2), cut, () => gone.open(), ...again],
      sees: [primer, 1, primer, ...upTo(2000), 'result', 'end']
    }))
  )

  conversation(
    'waits for a client that does not read, and goes on when it does',
    beside({
      options: { maxStreamBytes: 20_000 },
      endpoint: [
        head,
        async ({ res }) => pipeline(Readable.from(blocks(1, 2000)), res, { end: false }),
        ends(RESULT)
      ],
      client: [
        post,
        ({ response }) => response.pause(),
        turn,
        ({ response }) => response.resume(),
        end
      ],
      sees: [primer, ...upTo(2000), 'result', 'end']
    })
  )

  conversation(
    'fails with its source: an error for the request',
    beside({
      endpoint: [head, ({ res }) => pipeline(failing, res).catch(codeOf)],
      client: [post, end],
      sees: [primer, 1, 'error no-response', 'end']
    })
  )

  conversation(
    'fails when the stream is abandoned, and lets its source go',
    telling(new Set(['ERR_STREAM_PREMATURE_CLOSE', 'source closed']), tell => {
      const source = new Readable({ read: () => undefined })
      source.on('close', () => tell('source closed')).push(NOTE)
      return {
        options: { resumeInterval: { min: 0, max: 0.05 } },
        endpoint: [head, ({ res }) => pipeline(source, res).catch(error => tell(codeOf(error)))],
        client: [post, take(2), cut],
        sees: [primer, 1]
      }
    })
  )
})

conversation(
  'a listener for errors hears nothing of a client that resets',
  telling([], tell => ({
    endpoint: [
      ({ req, res }) => [req, res].forEach(one => one.on('error', error => tell(codeOf(error)))),
      ...[head, says(NOTE), hold, ...Array<Line>(100).fill(says(NOTE)), ends(RESULT)]
    ],
    client: [post, take(2), cut({ by: 'rst' }), go, ...again],
    sees: [primer, 1, primer, ...Array<number>(101).fill(1), 'result', 'end']
  }))
)
