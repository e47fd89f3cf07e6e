// When a stream that has asked its client something stops for the answers.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { ClientProfile } from '../../../lib/protocol/revisions.js'
import type { RegistryLimits } from '../../../lib/streams/stream-types.js'
import { cancelled, request } from '../../helpers/mcp.js'
import { HandOffTimes } from '../../../lib/features/hand-off/hand-off.js'
import {
  AFTER,
  append,
  complete,
  FakeReader,
  LIMITS,
  MANNERS,
  newTable,
  open,
  progress,
  QUIET,
  type Opened
} from './fakes.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => {
  jest.useRealTimers()
  table.table.beginClosing(0)
  for (const { stream } of opened.splice(0)) stream.cancel()
})

const ANNOUNCED: ClientProfile = { ...MANNERS, handoff: 'when-quiet' }

let table: ReturnType<typeof newTable>
const opened: Opened[] = []

/** A stream with a reader. */
function start(
  profile: ClientProfile,
  kind: 'request' | 'listen' = 'request',
  limits: Partial<RegistryLimits> = {}
) {
  table = newTable(limits)
  const one = open(table.table, { profile, kind })
  opened.push(one)
  const reader = new FakeReader()
  one.stream.attach(reader, 0)
  return { ...one, reader }
}

const ask = (id: string | number) => request(id, 'elicitation/create', {})
const pass = (milliseconds: number) => jest.advanceTimersByTime(milliseconds)

describe('for a client that has announced itself', () => {
  it('when it has been quiet, to the millisecond; the reader is disconnected', () => {
    const { stream, reader } = start(ANNOUNCED)
    append(stream, ask('a'))
    pass(QUIET - 1)
    expect([stream.state, reader.disconnects]).toStrictEqual(['live', []])
    pass(1)
    expect([stream.state, reader.disconnects]).toStrictEqual(['waiting', [undefined]])
    expect(table.notices.map(({ name }) => name)).toEqual(['created', 'waiting'])
  })

  it('not for notifications, and not for responses', () => {
    const { stream } = start(ANNOUNCED)
    append(stream, progress('one'))
    append(stream, { jsonrpc: '2.0', id: 'other', result: {} })
    pass(1e6)
    expect(stream.state).toBe('live')
    expect(jest.getTimerCount()).toBeLessThan(2)
  })

  it('not where the process is about to end: it would find the door shut', () => {
    const { stream, reader } = start(ANNOUNCED)
    append(stream, ask('a'))
    table.table.beginClosing(1e9)
    pass(1e6)
    append(stream, ask('b'))
    pass(1e6)
    expect([stream.state, reader.disconnects]).toStrictEqual(['live', []])
  })

  it('every event begins the quiet again', () => {
    const { stream } = start(ANNOUNCED)
    append(stream, ask('a'))
    for (let i = 0; i < 5; i++) {
      pass(QUIET - 1)
      append(stream, progress('on'))
    }
    expect(stream.state).toBe('live')
    pass(QUIET - 1)
    expect(stream.state).toBe('live')
    pass(1)
    expect(stream.state).toBe('waiting')
  })

  it('but not for ever: a stream that is never quiet is stopped too', () => {
    const { stream } = start(ANNOUNCED)
    append(stream, ask('a'))
    for (let i = 0; i < 100 && stream.state === 'live'; i++) {
      pass(QUIET - 1)
      append(stream, progress('on'))
    }
    expect(stream.state).toBe('waiting')
  })

  it('whether or not it is there', () => {
    const { stream, reader } = start(ANNOUNCED)
    stream.detach(reader)
    append(stream, ask('a'))
    pass(QUIET)
    expect([stream.state, reader.disconnects]).toStrictEqual(['waiting', []])
  })

  it('goes on with the last answer, and stops again for the next request', () => {
    const { stream } = start(ANNOUNCED)
    append(stream, ask('a'))
    append(stream, ask('b'))
    pass(QUIET)
    stream.answered('a', true)
    expect(stream.state).toBe('live')
    // One is open still.
    pass(QUIET)
    expect(stream.state).toBe('waiting')
    stream.answered('b', true)
    expect(stream.state).toBe('live')
    pass(10 * QUIET)
    expect(stream.state).toBe('live')
    append(stream, ask('c'))
    pass(QUIET)
    expect(stream.state).toBe('waiting')
  })

  it('goes on waiting where the answer is to none of its requests', () => {
    const { stream } = start(ANNOUNCED)
    append(stream, ask('a'))
    pass(QUIET)
    stream.answered('b', true)
    expect(stream.state).toBe('waiting')
  })

  it('goes on when the server takes its last request back, however it says so', () => {
    for (const message of [
      cancelled('a'),
      { method: 'notifications/cancelled', params: { requestId: 'a' }, jsonrpc: '2.0' }
    ]) {
      const { stream } = start(ANNOUNCED)
      append(stream, ask('a'))
      pass(QUIET)
      append(stream, message)
      expect(stream.state).toBe('live')
    }
  })

  it('does not stop for what was answered before it was quiet', () => {
    const { stream } = start(ANNOUNCED)
    append(stream, ask('a'))
    pass(QUIET - 1)
    stream.answered('a')
    pass(1e5)
    expect(stream.state).toBe('live')
  })

  it('ends as ever while it waits, and nothing ticks on', () => {
    const { stream, producer } = start(ANNOUNCED)
    append(stream, ask('a'))
    pass(QUIET)
    complete(stream)
    expect([stream.state, stream.openRequests.size, producer.lost, producer.releases]).toEqual([
      'completed',
      0,
      [],
      1
    ])
    pass(QUIET)
    expect(stream.state).toBe('completed')
  })

  it('tells the producer of every request that is open when it is abandoned', () => {
    const { stream, producer, reader } = start(ANNOUNCED)
    for (const id of ['a', 1, 'b']) append(stream, ask(id))
    stream.answered(1, true)
    pass(QUIET)
    stream.detach(reader)
    pass(LIMITS.abandonAfter)
    expect([stream.state, producer.lost, producer.releases]).toEqual(['abandoned', ['a', 'b'], 1])
  })

  it('does not tell it so when it is cancelled, or fails: it knows by itself', () => {
    for (const end of ['cancel', 'fail'] as const) {
      const { stream, producer } = start(ANNOUNCED)
      append(stream, ask('a'))
      pass(QUIET)
      if (end === 'cancel') stream.cancel()
      else stream.fail('overflow')
      expect(producer.lost).toEqual([])
    }
  })
})

describe('for a client of which nothing is known', () => {
  it('it is disconnected after its time, and the stream does not wait', () => {
    const { stream, reader } = start(MANNERS)
    append(stream, ask('a'))
    pass(AFTER - 1)
    expect(reader.disconnects).toStrictEqual([])
    pass(1)
    expect([stream.state, reader.disconnects]).toStrictEqual(['live', [undefined]])
  })

  it('once: a second reader is left in peace', () => {
    const { stream, reader } = start(MANNERS)
    append(stream, ask('a'))
    pass(AFTER)
    stream.detach(reader, stream.last)
    const second = new FakeReader()
    stream.attach(second, 1)
    append(stream, ask('b'))
    pass(10 * AFTER)
    expect([stream.state, second.disconnects]).toStrictEqual(['live', []])
  })

  it('nobody is disconnected who was not there: the reader that comes later has its time', () => {
    table = newTable()
    const one = open(table.table, { profile: MANNERS })
    opened.push(one)
    append(one.stream, ask('a'))
    const reader = new FakeReader()
    one.stream.attach(reader, 0)
    expect(reader.disconnects).toStrictEqual([])
    pass(AFTER - 1)
    expect(reader.disconnects).toStrictEqual([])
    pass(1)
    expect(reader.disconnects).toStrictEqual([undefined])
  })

  it('an answer in time leaves it connected', () => {
    const { stream, reader } = start(MANNERS)
    append(stream, ask('a'))
    pass(AFTER - 1)
    stream.answered('a')
    pass(10 * AFTER)
    expect(reader.disconnects).toStrictEqual([])
  })

  it('once it has proved itself, it is handed off to: at once where it has been quiet for long', () => {
    const { stream, reader } = start(MANNERS)
    append(stream, ask('a'))
    pass(QUIET)
    expect(stream.state).toBe('live')
    stream.noteFollowsLinks()
    expect([stream.state, reader.disconnects]).toStrictEqual(['waiting', [undefined]])
    stream.noteFollowsLinks()
    expect(reader.disconnects).toHaveLength(1)
  })

  it('and as soon as it is quiet from then on', () => {
    const { stream } = start(MANNERS)
    stream.noteFollowsLinks()
    append(stream, ask('a'))
    pass(QUIET)
    expect(stream.state).toBe('waiting')
  })
})

describe('a ping goes in front of what is asked', () => {
  const pings = ({ stream }: Opened) => stream.log.last - stream.lastRequest === 0 && stream.pingId

  it('of a client that may keep its answers, once, and of nobody else', () => {
    const isPinged = (profile: ClientProfile, kind?: 'listen') => {
      const one = start(profile, kind)
      append(one.stream, ask('a'))
      append(one.stream, ask('b'))
      return [typeof pings(one) === 'string', one.stream.log.last]
    }
    expect(isPinged(MANNERS)).toEqual([true, 3])
    expect(isPinged(MANNERS, 'listen')).toEqual([false, 2])
    expect(isPinged({ ...MANNERS, handoff: 'when-quiet' })).toEqual([false, 2])
    expect(isPinged({ ...MANNERS, handoff: 'never' })).toEqual([false, 2])
  })

  it('and its client has a second for the answer, however soon it would be disconnected', () => {
    const { stream, reader } = start(MANNERS, 'request', {
      handOff: new HandOffTimes(10)
    })
    append(stream, ask('a'))
    pass(999)
    expect(reader.disconnects).toStrictEqual([])
    pass(1)
    expect(reader.disconnects).toStrictEqual([undefined])
  })
})

describe('never', () => {
  it('once it turned out not to be ours', () => {
    const { stream, reader } = start(ANNOUNCED)
    append(stream, ask('a'))
    table.table.forget(stream)
    pass(1e6)
    expect([stream.state, reader.disconnects]).toStrictEqual(['live', []])
  })

  it('where that is the option, not even for a client that has proved itself', () => {
    const { stream, reader } = start({ ...MANNERS, handoff: 'never' })
    append(stream, ask('a'))
    stream.noteFollowsLinks()
    pass(10 * AFTER)
    expect([stream.state, reader.disconnects]).toStrictEqual(['live', []])
  })

  it('on a listen channel', () => {
    const { stream, reader } = start(ANNOUNCED, 'listen')
    append(stream, ask('a'))
    pass(10 * AFTER)
    expect([stream.state, reader.disconnects]).toStrictEqual(['live', []])
  })

  it('before the first reader: its head is not out yet', () => {
    table = newTable()
    const one = open(table.table, { profile: ANNOUNCED })
    opened.push(one)
    append(one.stream, ask('a'))
    pass(10 * QUIET)
    expect(one.stream.state).toBe('live')
    const reader = new FakeReader()
    one.stream.attach(reader, 0)
    // Not in the middle of its coming.
    expect(one.stream.state).toBe('live')
    pass(1)
    expect([one.stream.state, reader.disconnects]).toStrictEqual(['waiting', [undefined]])
  })
})
