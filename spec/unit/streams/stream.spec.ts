// One stream: every way it can end, what it owes to whom, and what happens when those it calls call
// back.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { cancelled, eventId } from '../../helpers/mcp.js'
import type { Stream } from '../../../lib/streams/stream.js'
import type { StreamState } from '../../../lib/streams/stream-types.js'
import {
  append,
  appendBytes,
  block,
  complete,
  deliver,
  FakeReader,
  newTable,
  open,
  progress,
  response,
  type FakeTable,
  type Opened
} from './fakes.js'

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] })
})
afterEach(() => {
  jest.useRealTimers()
})

const textOf = (stream: Stream) => deliver(stream, (stream.record ?? stream).first - 1)
const messagesOf = (stream: Stream) =>
  [...textOf(stream).matchAll(/^data: (.*)$/gm)].flatMap(([, data]) => {
    try {
      return [JSON.parse(data!)]
    } catch {
      return []
    }
  })
/** Unanswered, unread, and too much for one segment. */
const large = (n = 100_000) => progress('x'.repeat(n))

type Act = (opened: Opened, fake: FakeTable) => void

/** Every way out of `live`. */
const ENDINGS: [name: string, state: StreamState, code: string | undefined, act: Act][] = [
  [
    'the endpoint ends it after its response',
    'completed',
    undefined,
    ({ stream }) => complete(stream)
  ],
  [
    'the endpoint ends it without a response',
    'failed',
    'no-response',
    ({ stream }) => stream.producerEnded()
  ],
  [
    'the endpoint sends an event that is too large',
    'failed',
    'event-too-large',
    ({ stream }) => append(stream, large(5_000_000))
  ],
  [
    'the endpoint writes on when it is full',
    'failed',
    'overflow',
    ({ stream }) => {
      while (append(stream, large()));
      append(stream, 'more')
    }
  ],
  ['it is made to fail', 'failed', 'session-ended', ({ stream }) => stream.fail('session-ended')],
  ['the client cancels', 'cancelled', undefined, ({ stream }) => stream.cancel()],
  ['it is abandoned', 'abandoned', 'abandoned', ({ stream }) => stream.abandon()],
  [
    'no client comes back',
    'abandoned',
    'abandoned',
    ({ stream }) => {
      const reader = new FakeReader()
      stream.attach(reader, 0)
      stream.detach(reader)
      jest.advanceTimersByTime(600_000)
    }
  ]
]

describe.each(ENDINGS)('when %s', (_name, state, code, end) => {
  it(`a live stream becomes ${state}`, () => {
    const fake = newTable()
    const opened = open(fake.table)
    expect(opened.stream.state).toBe('live')
    expect(opened.stream.isEnded).toBe(false)
    end(opened, fake)
    expect(opened.stream.state).toBe(state)
    expect(opened.stream.isEnded).toBe(true)
  })

  it('the producer is released, the table is told, the signal aborts: each once, and the reader is woken', () => {
    const fake = newTable()
    const opened = open(fake.table)
    const { stream, producer } = opened
    const aborts = jest.fn()
    stream.signal.addEventListener('abort', aborts)
    const reader = new FakeReader()
    if (state !== 'abandoned') stream.attach(reader, 0)
    const wakes = reader.wakes
    end(opened, fake)
    for (const [, , , again] of ENDINGS) again(opened, fake)
    expect(producer.releases).toBe(1)
    expect(fake.notices).toEqual([
      { name: 'created', id: stream.id, code: undefined },
      ...fake.notices.filter(({ name }) => name === 'evicted'),
      { name: state, id: stream.id, code }
    ])
    expect(aborts).toHaveBeenCalledTimes(state === 'completed' ? 0 : 1)
    expect(stream.signal.aborted).toBe(state !== 'completed')
    if (state !== 'abandoned') expect(reader.wakes).toBeGreaterThan(wakes)
  })

  it.each(ENDINGS)('nothing changes when then %s', (_other, _state, _code, act) => {
    const fake = newTable()
    const opened = open(fake.table)
    end(opened, fake)
    const { log } = opened.stream
    const before = [opened.stream.state, log.first, log.last, fake.notices.length]
    act(opened, fake)
    expect([opened.stream.state, log.first, log.last, fake.notices.length]).toEqual(before)
    expect(append(opened.stream, 'late')).toBe(false)
    expect(log.last).toBe(before[2])
  })

  it('a signal that is asked for afterwards tells it too', () => {
    const fake = newTable()
    const opened = open(fake.table)
    end(opened, fake)
    expect(opened.stream.signal.aborted).toBe(state !== 'completed')
    if (state !== 'completed')
      expect(opened.stream.signal.reason).toMatchObject({ name: 'AbortError' })
  })

  it('no time runs any more', () => {
    const fake = newTable()
    const opened = open(fake.table)
    const reader = new FakeReader()
    opened.stream.attach(reader, 0)
    opened.stream.detach(reader)
    end(opened, fake)
    opened.stream.signOfLife()
    opened.stream.attach(reader, 0)
    opened.stream.detach(reader)
    // What is kept is let go in time; nothing else is due.
    jest.advanceTimersByTime(700_000)
    expect(jest.getTimerCount()).toBe(0)
    expect(opened.stream.state).toBe(state)
  })

  it('the client learns of it: it has its response, or an error, or has no use for one', () => {
    const fake = newTable()
    const opened = open(fake.table, { requestIds: ['a', 7] })
    append(opened.stream, response('a', 'first'))
    const isComplete = state === 'completed'
    if (isComplete) complete(opened.stream, 7)
    else end(opened, fake)
    const responses = messagesOf(opened.stream).filter(({ id }) => id !== undefined)
    if (isComplete) expect(responses.map(({ id }) => id)).toEqual(['a', 7])
    else if (state === 'failed') {
      expect(responses.at(-1)).toEqual({
        jsonrpc: '2.0',
        id: 7,
        error: { code: -31000, message: expect.any(String), data: { reason: code } }
      })
      expect(responses.filter(({ id }) => id === 7)).toHaveLength(1)
    } else expect(responses).toEqual([])
  })
})

describe('a stream', () => {
  it('numbers its events and gives them to whoever reads', () => {
    const { stream } = open(newTable().table)
    append(stream, 'a')
    append(stream, 'b')
    expect(textOf(stream)).toBe(
      `id: ${eventId(stream.id, 1)}\ndata: a\n\nid: ${eventId(stream.id, 2)}\ndata: b\n\n`
    )
  })

  it('wakes its reader for each event, and passes comments by the log', () => {
    const { stream } = open(newTable().table)
    const reader = new FakeReader()
    stream.comment(Buffer.from(': nobody hears\n\n'))
    stream.attach(reader, 0)
    append(stream, 'a')
    append(stream, 'b')
    stream.comment(Buffer.from(': ping\n\n'))
    expect(reader.wakes).toBe(2)
    expect(reader.comments).toEqual([': ping\n\n'])
    expect(stream.log.last).toBe(2)
  })

  it('takes an event whose messages are known as they are, and tells its reader of them', () => {
    const { stream } = open(newTable().table)
    const reader = new FakeReader()
    stream.attach(reader, 0)
    append(stream, progress('not read'))
    expect(reader.said).toEqual([])
    append(stream, { jsonrpc: '2.0', id: 'q', method: 'ping' })
    expect(reader.said).toMatchObject([{ id: 'q' }])
    const known = response()
    expect(stream.appendRead(Buffer.from('no block at all'), [known])).toBe(true)
    expect(reader.said[0]).toBe(known)
    expect(stream.owed).toEqual([])
    stream.producerEnded()
    expect(stream.state).toBe('completed')
    expect(stream.appendRead(Buffer.from('late'), [])).toBe(false)
  })

  it('does not fail where the endpoint ends it while its session is to end, unless that stays', () => {
    for (const [asked, kept, states] of [
      [1, 1, ['live', 'failed']],
      [2, 1, ['live', 'live']],
      [2, 2, ['live', 'failed']]
    ] as const) {
      const { stream } = open(newTable().table)
      for (let n = 0; n < asked; n++) stream.sessionEnding()
      stream.producerEnded()
      const first = stream.state
      for (let n = 0; n < kept; n++) stream.sessionKept()
      expect([first, stream.state]).toEqual(states)
      stream.cancel()
    }
    const { stream } = open(newTable().table)
    stream.sessionEnding()
    stream.sessionKept()
    expect(stream.state).toBe('live')
  })

  it('says that it is a listen channel, and completes without any response', () => {
    const { stream } = open(newTable().table, { kind: 'listen', requestIds: [] })
    stream.producerEnded()
    expect(stream.state).toBe('completed')
  })
})

describe('the responses of a stream', () => {
  const missing = (act: (stream: Stream) => void, requestIds: (string | number)[] = [1]) => {
    const { stream } = open(newTable().table, { requestIds })
    act(stream)
    stream.producerEnded()
    return messagesOf(stream)
      .filter(({ error }) => error?.data?.reason === 'no-response')
      .map(({ id }) => id)
  }

  it('are counted one by one, in batches, and over several data lines', () => {
    expect(missing(stream => append(stream, response(1)))).toEqual([])
    expect(
      missing(stream => append(stream, { jsonrpc: '2.0', id: 1, error: { code: 1, message: '' } }))
    ).toEqual([])
    expect(
      missing(stream => append(stream, [response(2), progress('x'), response(1)]), [1, 2, 3])
    ).toEqual([3])
    expect(
      missing(stream =>
        append(stream, JSON.stringify(response(1), null, 1).replaceAll('\n', '\ndata: '))
      )
    ).toEqual([])
    expect(
      missing(stream => append(stream, `{ \ndata: "id": 1,\ndata: "result": {}\ndata: }`))
    ).toEqual([])
  })

  it('may be wrapped in whatever an SSE writer adds', () => {
    const raw = (text: string) => (stream: Stream) => appendBytes(stream, Buffer.from(text))
    const json = JSON.stringify(response(1))
    expect(missing(raw(`event: message\nretry: 5\ndata:${json}\n: comment\n\n`))).toEqual([])
    expect(missing(raw(`data: ${json}\nevent: message\n\n`))).toEqual([])
    // No client takes an event with another name for a message.
    expect(missing(raw(`event: other\ndata: ${json}\n\n`))).toEqual([1])
  })

  it('are those to its own requests only, by id and by type of id', () => {
    expect(missing(stream => append(stream, response('1')))).toEqual([1])
    expect(missing(stream => append(stream, response(1)), ['1'])).toEqual(['1'])
    expect(missing(stream => append(stream, { jsonrpc: '2.0', id: 1, method: 'ping' }))).toEqual([
      1
    ])
    expect(missing(stream => append(stream, progress('x')))).toEqual([1])
    expect(missing(stream => append(stream, '{"id":1,"result"'))).toEqual([1])
    expect(missing(stream => append(stream, ''))).toEqual([1])
  })

  it('are also those under an id that none of the requests has: somebody in between has numbered them anew', () => {
    expect(missing(stream => append(stream, response(2)))).toEqual([])
    expect(missing(stream => append(stream, response('x')), [1, 2])).toEqual([1, 2])
  })

  it('count once each, so that two requests with one id are owed two', () => {
    expect(missing(stream => append(stream, response(1)), [1, 1])).toEqual([1])
  })

  it('are heard before any client reads them', () => {
    const { stream } = open(newTable().table)
    const heard: unknown[] = []
    stream.onResponse = message => heard.push([message.id, stream.log.written])
    append(stream, progress('x'))
    append(stream, response(1))
    expect(heard).toEqual([[1, 0]])
  })

  it('leave a mark when one is an error', () => {
    const { stream } = open(newTable().table)
    append(stream, response(1))
    expect(stream.lastError).toBe(0)
    append(stream, { jsonrpc: '2.0', id: 2, error: { code: 1, message: '' } })
    expect(stream.lastError).toBeGreaterThan(0)

    const other = open(newTable().table).stream
    other.producerEnded()
    expect(other.lastError).toBeGreaterThan(0)
  })

  it('are not invented for a client that has cancelled', () => {
    const { stream } = open(newTable().table)
    append(stream, progress('x'))
    stream.cancel()
    expect([stream.log.bytes, stream.log.last]).toEqual([0, 1])
  })

  it('reach the client though not a byte is left', () => {
    const { table } = newTable({ maxBytes: 200_000, maxStreamBytes: 200_000 })
    const greedy = open(table, { requestIds: ['greedy'] }).stream
    append(greedy, large(199_000))
    const poor = open(table, { requestIds: ['poor'] }).stream
    expect(append(poor, large(10_000))).toBe(false)
    expect(poor.state).toBe('failed')
    expect(messagesOf(poor)).toMatchObject([
      { id: 'poor', error: { data: { reason: 'overflow' } } }
    ])
    expect(greedy.state).toBe('live')
    expect(table.counts().bytes).toBe(greedy.log.bytes + poor.record!.size)
    expect(table.counts().bytes).toBeLessThan(200_000 + 1024)
  })

  it('all reach the client, when many are missing and not a byte is left', () => {
    const { table } = newTable({ maxBytes: 100_000, maxStreamBytes: 100_000 })
    const requestIds = Array.from({ length: 200 }, (_, i) => `request ${i}`)
    const { stream } = open(table, { requestIds })
    append(stream, large(99_000))
    stream.producerEnded()
    expect(
      messagesOf(stream)
        .slice(1)
        .map(({ id }) => id)
    ).toEqual(requestIds)
  })
})

describe('the limit of a stream', () => {
  it('shows as `false` on the event that reaches it, and that one is kept', () => {
    const { stream } = open(newTable({ maxStreamBytes: 100_000 }).table)
    stream.attach(new FakeReader(), 0)
    expect(append(stream, large(50_000))).toBe(true)
    expect(stream.isFull).toBe(false)
    expect(append(stream, large(50_000))).toBe(false)
    expect(stream.isFull).toBe(true)
    expect([stream.state, stream.log.last]).toEqual(['live', 2])
  })

  it('is over once less than half is unwritten: then the producer may go on, told once', () => {
    const { stream, producer } = open(newTable({ maxStreamBytes: 400_000 }).table)
    stream.attach(new FakeReader(), 0)
    for (let i = 0; i < 4; i++) append(stream, large())
    expect(stream.isFull).toBe(true)
    for (const [cursor, drains] of [
      [0, 0],
      [1, 0],
      [2, 1],
      [3, 1]
    ] as const) {
      stream.markWritten(stream.log.read(cursor), 0)
      expect(producer.drains).toBe(drains)
    }
    expect(append(stream, large())).toBe(true)
  })

  it.each([
    ['follows', {}, (stream: Stream) => stream.attach(new FakeReader(), 0)],
    ['is about to follow', { isConnecting: true }, () => undefined]
  ])(
    'takes as much again of the write that reaches it, while somebody %s: nobody is told in between',
    (...[, init, begin]) => {
      const { stream } = open(newTable({ maxStreamBytes: 200_000 }).table, init)
      begin(stream)
      const bytes = block(large())
      const put = (isSameWrite: boolean) => appendBytes(stream, bytes, isSameWrite)
      expect([put(false), put(true), put(true), put(true)]).toEqual([true, false, false, false])
      expect([stream.state, stream.log.last]).toEqual(['live', 4])
      put(true)
      expect(stream.state).toBe('failed')
    }
  )

  it('asks nobody to wait where nobody reads: what comes beyond it ends the stream, of one write or of many', () => {
    for (const isSameWrite of [false, true]) {
      const { stream, producer } = open(newTable({ maxStreamBytes: 200_000 }).table)
      const put = () => appendBytes(stream, block(large()), isSameWrite)
      expect([put(), put(), stream.isFull]).toEqual([true, true, false])
      expect([put(), stream.state, producer.releases]).toEqual([false, 'failed', 1])
    }
  })

  it.each([
    ['leaves', {}, (stream: Stream, reader: FakeReader) => stream.detach(reader)],
    ['never comes', { isConnecting: true }, (stream: Stream) => stream.missed()]
  ])('lets the producer go on some time after the reader %s', (...[, init, leave]) => {
    const { stream, producer } = open(newTable({ maxStreamBytes: 200_000 }).table, init)
    const reader = new FakeReader()
    if (!('isConnecting' in init)) stream.attach(reader, 0)
    while (append(stream, large()));
    expect([stream.state, stream.isFull, producer.drains]).toEqual(['live', true, 0])
    leave(stream, reader)
    jest.advanceTimersByTime(9999)
    expect([stream.state, stream.isFull, producer.drains]).toEqual(['live', true, 0])
    jest.advanceTimersByTime(1)
    expect([stream.state, stream.isFull, producer.drains]).toEqual(['live', false, 1])
    expect([append(stream, large()), stream.state]).toEqual([false, 'failed'])
  })

  it('goes on as before for a reader that comes back soon', () => {
    const { stream, producer } = open(newTable({ maxStreamBytes: 200_000 }).table)
    const reader = new FakeReader()
    stream.attach(reader, 0)
    let taken = 1
    while (append(stream, large())) taken++
    stream.detach(reader)
    jest.advanceTimersByTime(9999)
    stream.attach(new FakeReader(), 0)
    jest.advanceTimersByTime(60_000)
    expect([stream.state, stream.isFull, producer.drains]).toEqual(['live', true, 0])
    deliver(stream)
    expect([producer.drains, stream.log.last]).toEqual([1, taken])
    stream.detach(reader)
  })

  it.each<[string, (stream: Stream) => void]>([
    ['is cancelled', stream => stream.cancel()],
    ['is dropped', stream => stream.forget()]
  ])('waits for nobody any more when it %s', (_name, end) => {
    const { stream } = open(newTable({ maxStreamBytes: 200_000 }).table)
    const reader = new FakeReader()
    stream.attach(reader, 0)
    while (append(stream, large()));
    stream.detach(reader)
    end(stream)
    jest.advanceTimersByTime(3_600_000)
    // That of the sweep, where the table has not been told.
    expect(jest.getTimerCount()).toBeLessThan(2)
  })

  it('makes room among what has been written, and says so', () => {
    const { table, notices } = newTable({ maxStreamBytes: 250_000 })
    const { stream } = open(table)
    stream.attach(new FakeReader(), 0)
    for (let i = 0; i < 20; i++) {
      expect(append(stream, large())).toBe(true)
      deliver(stream, i)
      expect(stream.log.bytes).toBeLessThan(250_000 + 101_000)
    }
    expect(stream.state).toBe('live')
    expect(stream.log.first).toBe(19)
    expect(notices.filter(({ name }) => name === 'evicted')).toHaveLength(18)
    expect(table.counts().evictions).toBe(18)
  })

  it('never makes room among what the newest reader still needs, though another has been given it', () => {
    const { table } = newTable({ maxStreamBytes: 250_000 })
    const { stream, producer } = open(table)
    for (let i = 0; i < 2; i++) append(stream, large())
    deliver(stream)
    stream.attach(new FakeReader(), 0)
    expect(append(stream, large())).toBe(false)
    expect(stream.log.first).toBe(1)
    expect(deliver(stream, 0)).toHaveLength(3 * stream.log.read(2).bytes.length)
    expect(producer.drains).toBe(1)
    expect(append(stream, large())).toBe(true)
  })

  it('is not moved by a client that claims events it was never given', () => {
    const { stream, producer } = open(newTable({ maxStreamBytes: 300_000 }).table)
    stream.attach(new FakeReader(), 0)
    for (let i = 0; i < 3; i++) append(stream, large())
    expect(stream.isFull).toBe(true)
    stream.attach(new FakeReader(), 2)
    deliver(stream, 2)
    expect(producer.drains).toBe(1)
    expect(stream.log.unwrittenBytes).toBe(0)
  })

  it('gives way to the greatest event that is allowed, alone', () => {
    const { stream } = open(newTable({ maxStreamBytes: 1000, maxEventBytes: 1_000_000 }).table)
    stream.attach(new FakeReader(), 0)
    const fits = block('x'.repeat(1_000_000 - block('').length))
    expect(appendBytes(stream, fits)).toBe(false)
    expect([stream.state, stream.log.last]).toEqual(['live', 1])
    deliver(stream)
    expect(append(stream, 'x'.repeat(1_000_000))).toBe(false)
    expect(stream.state).toBe('failed')
  })
})

describe('the events of a stream', () => {
  it('stay for the window after they were written, and unwritten ones stay', () => {
    const { stream } = open(newTable({ window: 1000 }).table)
    append(stream, large())
    append(stream, large())
    jest.setSystemTime(50_000)
    stream.markWritten(stream.log.read(0), Date.now())
    stream.expire(51_000)
    expect(stream.log.first).toBe(1)
    stream.expire(51_001)
    expect(stream.log.first).toBe(2)
    stream.expire(1_000_000)
    expect(stream.log.first).toBe(2)
  })

  it('stay whatever their age from the first request that its client has not answered', () => {
    const { stream } = open(newTable({ window: 1000 }).table)
    stream.noteDirectAnswer()
    append(stream, large())
    append(stream, {
      jsonrpc: '2.0',
      id: 'elicit',
      method: 'elicitation/create',
      params: { x: 'x'.repeat(100_000) }
    })
    append(stream, large())
    append(stream, { jsonrpc: '2.0', id: 'sample', method: 'sampling/createMessage', params: {} })
    expect([...stream.openRequests]).toEqual([
      ['elicit', 2],
      ['sample', 4]
    ])
    deliver(stream, 0, 1)
    stream.expire(1_000_000)
    expect(stream.log.first).toBe(2)
    stream.answered('unknown')
    stream.answered('elicit')
    stream.expire(1_000_000)
    expect(stream.log.first).toBe(4)
    stream.answered('sample')
    stream.expire(1_000_000)
    expect(stream.log.first).toBe(5)
  })

  it('of a listen channel go after the window, whatever has not been answered: it may be there for weeks', () => {
    const { stream } = open(newTable({ window: 1000 }).table, { kind: 'listen', requestIds: [] })
    stream.attach(new FakeReader(), 0)
    for (let at = 1000; at <= 1_000_000; at += 1000) {
      append(stream, { jsonrpc: '2.0', id: `ping ${at}`, method: 'ping' })
      append(stream, progress('x'.repeat(200)))
      deliver(stream, stream.log.last - 2, at)
      stream.expire(at)
    }
    expect(stream.log.bytes).toBeLessThan(200_000)
    expect(stream.openRequests.size).toBeLessThan(500)
    expect(stream.openRequests.has('ping 1000000')).toBe(true)
  })

  it('go at the limit, unanswered requests after all the others', () => {
    const { stream } = open(newTable({ maxStreamBytes: 350_000 }).table)
    stream.noteDirectAnswer()
    append(stream, large())
    append(stream, {
      jsonrpc: '2.0',
      id: 'elicit',
      method: 'elicitation/create',
      params: { x: 'x'.repeat(100_000) }
    })
    append(stream, large())
    deliver(stream)
    append(stream, large())
    expect(stream.log.first).toBe(2)
    deliver(stream, 3)
    append(stream, large())
    expect(stream.log.first).toBe(3)
  })
})

it('notifications are not parsed while a request is open, but for those that may take it back', () => {
  const { stream } = open(newTable().table)
  append(stream, { jsonrpc: '2.0', id: 'ask', method: 'ping' })
  const parse = jest.spyOn(JSON, 'parse')
  append(stream, progress('one'))
  expect(parse).not.toHaveBeenCalled()
  append(stream, cancelled('ask'))
  expect([parse.mock.calls.length, stream.openRequests.size]).toEqual([1, 0])
  parse.mockRestore()
})

describe('the readers of a stream', () => {
  it('take each other over, the newest wins', () => {
    const { stream } = open(newTable().table)
    const [first, second] = [new FakeReader(), new FakeReader()]
    expect([stream.hasReader, stream.readers.current]).toEqual([false, undefined])
    stream.attach(first, 0)
    append(stream, 'a')
    stream.attach(second, 1)
    expect([first.takeOvers, second.takeOvers]).toEqual([1, 0])
    expect(stream.readers.current).toBe(second)
    expect([stream.readers.count, stream.readers.start]).toEqual([2, 1])
    stream.detach(first)
    expect(stream.readers.current).toBe(second)
    append(stream, 'b')
    expect([first.wakes, second.wakes]).toEqual([1, 1])
    stream.detach(second)
    expect(stream.hasReader).toBe(false)
  })

  it('keep it from being abandoned; from the last that has gone on, the time runs', () => {
    const { stream } = open(newTable({ abandonAfter: 1000 }).table)
    const [first, second] = [new FakeReader(), new FakeReader()]
    jest.advanceTimersByTime(100_000)
    stream.attach(first, 0)
    jest.advanceTimersByTime(100_000)
    stream.detach(first)
    jest.advanceTimersByTime(999)
    stream.attach(second, 0)
    jest.advanceTimersByTime(100_000)
    stream.detach(first)
    jest.advanceTimersByTime(100_000)
    expect(stream.state).toBe('live')
    stream.detach(second)
    jest.advanceTimersByTime(999)
    stream.signOfLife()
    jest.advanceTimersByTime(999)
    expect(stream.state).toBe('live')
    jest.advanceTimersByTime(1)
    expect(stream.state).toBe('abandoned')
  })

  it('may stay away for longer than a timer can run', () => {
    const { stream } = open(newTable({ abandonAfter: 2 ** 40 }).table)
    const reader = new FakeReader()
    stream.attach(reader, 0)
    stream.detach(reader)
    jest.advanceTimersByTime(100_000)
    expect(stream.state).toBe('live')
  })

  it('are not needed by a stream that has ended', () => {
    const { table } = newTable({ abandonAfter: 1000 })
    const { stream } = open(table)
    complete(stream)
    const reader = new FakeReader()
    stream.attach(reader, 0)
    stream.detach(reader)
    jest.advanceTimersByTime(100_000)
    expect(stream.state).toBe('completed')
  })
})

describe('those whom a stream calls may call back', () => {
  it('a handler that writes, ends and cancels when its signal aborts', () => {
    for (const [, state, , end] of ENDINGS.filter(([, state]) => state !== 'completed')) {
      const fake = newTable()
      const opened = open(fake.table)
      const { stream, producer } = opened
      stream.signal.addEventListener('abort', () => {
        expect(append(stream, 'late')).toBe(false)
        stream.producerEnded()
        stream.cancel()
        stream.fail('closing')
        stream.abandon()
      })
      end(opened, fake)
      expect([stream.state, producer.releases]).toEqual([state, 1])
    }
  })

  it('a producer that ends and cancels when it is released', () => {
    const { table, notices } = newTable()
    const { stream, producer } = open(table)
    producer.streamEnded = () => {
      producer.releases++
      stream.producerEnded()
      stream.cancel()
    }
    stream.fail('closing')
    expect([stream.state, producer.releases, notices.length]).toEqual(['failed', 1, 2])
    expect(messagesOf(stream)).toHaveLength(1)
  })

  it('a producer that writes at once when there is room again', () => {
    const { stream, producer } = open(newTable({ maxStreamBytes: 100_000 }).table)
    stream.attach(new FakeReader(), 0)
    append(stream, large())
    producer.drain = () => {
      producer.drains++
      append(stream, large())
    }
    stream.markWritten(stream.log.read(0), 0)
    expect([producer.drains, stream.isFull, stream.log.last, stream.state]).toEqual([
      1,
      true,
      2,
      'live'
    ])
  })

  it('a reader that goes when it is woken, or reads at once', () => {
    const { table } = newTable()
    const { stream } = open(table)
    const reader = new FakeReader()
    reader.wake = () => {
      deliver(stream, stream.log.written)
      if (stream.isEnded) stream.detach(reader)
    }
    stream.attach(reader, 0)
    append(stream, 'a')
    expect(stream.log.unwrittenBytes).toBe(0)
    complete(stream)
    expect([stream.hasReader, stream.log.unwrittenBytes, stream.state]).toEqual([
      false,
      0,
      'completed'
    ])
    expect(table.counts()).toMatchObject({ live: 0, finished: 1 })
  })

  it('a reader that comes back when it is taken over', () => {
    const { stream } = open(newTable().table)
    const [first, second, third] = [new FakeReader(), new FakeReader(), new FakeReader()]
    first.takeOver = () => stream.attach(third, 0)
    stream.attach(first, 0)
    stream.attach(second, 0)
    expect(stream.readers.current).toBe(third)
    expect([second.takeOvers, stream.readers.count]).toEqual([1, 3])
  })

  it('two streams that end each other', () => {
    const { table, notices } = newTable()
    const [a, b] = [open(table), open(table)]
    a.producer.streamEnded = () => b.stream.cancel()
    b.producer.streamEnded = () => a.stream.cancel()
    a.stream.signal.addEventListener('abort', () => b.stream.fail('closing'))
    b.stream.signal.addEventListener('abort', () => a.stream.fail('closing'))
    a.stream.cancel()
    expect([a.stream.state, b.stream.state]).toEqual(['cancelled', 'failed'])
    expect(notices.map(({ name }) => name).sort()).toEqual([
      'cancelled',
      'created',
      'created',
      'failed'
    ])
    expect(table.counts()).toMatchObject({ live: 0, finished: 1 })
  })
})

describe('a stream that turned out not to be ours', () => {
  it('leaves nothing behind, and tells nobody', () => {
    const { table, notices } = newTable()
    const { stream, producer } = open(table)
    const reader = new FakeReader()
    stream.attach(reader, 0)
    append(stream, 'a')
    stream.detach(reader)
    table.forget(stream)
    jest.advanceTimersByTime(1_000_000)
    expect(jest.getTimerCount()).toBe(0)
    expect(notices.map(({ name }) => name)).toEqual(['created'])
    expect([producer.releases, table.counts().bytes, table.counts().live]).toEqual([0, 0, 0])
  })
})
