// A connection over sockets that behave like none that a spec can open at will: what it
// retained is released whatever becomes of them.

import { afterEach, describe, expect, it } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { responseSink } from '../../../lib/endpoint/connections.js'
import { Connection } from '../../../lib/readers/connection.js'
import type { Sink } from '../../../lib/readers/sink.js'
import type { Stream } from '../../../lib/streams/stream.js'
import type { StreamRegistry } from '../../../lib/streams/stream-registry.js'
import { append, complete, MANNERS, newTable, open, progress } from '../streams/fakes.js'

const none = (): void => undefined

/** A socket that takes what it is given, and says no more of it. */
class MuteSink implements Sink {
  isOver = false
  isGone = false
  pending = 0
  ends = 0
  readonly tellsWritten = true
  readonly written: string[] = []

  write(bytes: Uint8Array): boolean {
    this.written.push(Buffer.from(bytes).toString())
    this.pending += bytes.length
    return this.hasRoom
  }

  end(): void {
    this.ends++
  }

  readonly destroy = none
  uncork = none

  cork(): void {
    this.corks++
  }

  /** What the connection listens with, each time that it does. */
  readonly drains: (() => void)[] = []
  hasRoom = true
  isKeptAlive = false
  corks = 0

  onDrain(listener: () => void): void {
    this.drains.push(listener)
  }
  close = none

  onClose(listener: () => void): void {
    this.close = listener
  }

  readonly closeSocket = none
}

const opened: { stream: Stream; table: StreamRegistry }[] = []

function connected(sink: Sink, messages: readonly object[] = [], profile = MANNERS) {
  const { table } = newTable({ window: 0 })
  const { stream, ...rest } = open(table)
  opened.push({ stream, table })
  for (const message of messages) append(stream, message)
  const host = { silences: undefined, ages: undefined, closed: none, waits: none, goesOn: none }
  const options = {
    retry: 1,
    retryAtWill: 1,
    lost: none,
    debug: none
  }
  const connection = new Connection(stream, 0, sink, profile, options, host)
  connection.flush()
  return { ...rest, stream, table, connection }
}

it('does not end cleanly on a socket that is broken, and releases what that has not taken', () => {
  const sink = new MuteSink()
  const { table, stream, connection } = connected(sink)
  append(stream, progress('one'))
  connection.flush()
  sink.isOver = true
  sink.pending = 0
  complete(stream)
  expect([sink.ends, connection.isClosed]).toEqual([0, true])
  table.drop(stream)
  expect(table.counts().bytes).toBeGreaterThan(0)
  // Nobody is ever called back for what was written.
  sink.close()
  expect(table.counts().bytes).toBe(0)
})

it.each([{ destroyed: true }, { destroyed: false, errored: new Error('ECONNRESET') }])(
  'is over as soon as its socket is broken, before anybody is told: %j',
  socket => {
    const res = { writableEnded: false, destroyed: false } as ServerResponse
    const over = (state: object) => responseSink({ socket: state } as IncomingMessage, res).isOver
    expect([over(socket), over({ destroyed: false, errored: null })]).toEqual([true, false])
  }
)

afterEach(() => {
  for (const { stream, table } of opened.splice(0)) {
    stream.cancel()
    table.beginClosing(1)
  }
})

it('retains nothing that its sink copies', () => {
  const sink: Sink = Object.assign(new MuteSink(), { copies: 1000 })
  const { table, stream, connection } = connected(sink, [progress('one')])
  append(stream, progress('two'))
  connection.flush()
  stream.log.clear()
  expect([connection.cursor, table.counts().bytes]).toEqual([2, 0])
  append(stream, progress('x'.repeat(2000)))
  connection.flush()
  stream.log.clear()
  expect(connection.cursor).toBe(3)
  expect(table.counts().bytes).toBeGreaterThan(2000)
})

describe('the first block', () => {
  it('leaves in one write with the few small events that there are, and retains nothing', () => {
    const sink = new MuteSink()
    const { table, stream, connection } = connected(sink, [progress('one'), progress('two')])
    expect(sink.written).toEqual([
      expect.stringMatching(/^id: [^]*\nretry: 1\n[^]*"one"[^]*"two"[^]*\n\n$/)
    ])
    expect([connection.cursor, stream.written]).toEqual([2, 2])
    stream.log.clear()
    expect(table.counts().bytes).toBe(0)
  })

  it('leaves alone where there is nothing yet, or more than is worth a copy', () => {
    const [silent, large] = [new MuteSink(), new MuteSink()]
    connected(silent)
    connected(large, [progress('x'.repeat(2000))])
    expect([silent.written, large.written.map(({ length }) => length > 1000)]).toEqual([
      [expect.stringContaining('retry: 1')],
      [false, true]
    ])
  })

  it('marks nothing as written on a socket that is broken', () => {
    const sink = new MuteSink()
    sink.isOver = true
    const { stream } = connected(sink, [progress('one')])
    expect([sink.written, stream.written]).toEqual([[], 0])
  })
})

describe('a connection', () => {
  const text = (sink: MuteSink): string => sink.written.join('')

  it('writes what gathers in a tick in one go, at its end', async () => {
    const sink = new MuteSink()
    const { stream } = connected(sink)
    const { length } = sink.written
    const { corks } = sink
    for (const name of ['one', 'two']) append(stream, progress(name))
    expect(sink.written).toHaveLength(length)
    await new Promise(process.nextTick)
    expect([text(sink), sink.corks]).toEqual([expect.stringMatching(/"one"[^]*"two"/), corks + 1])
  })

  it('waits for each drain with one listener, and writes on then', () => {
    const sink = new MuteSink()
    const { stream, connection } = connected(sink)
    sink.hasRoom = false
    for (const name of ['one', 'two', 'three']) {
      append(stream, progress(name))
      connection.flush()
    }
    expect([sink.drains.length, /"one"/.test(text(sink)), /"two"/.test(text(sink))]).toEqual([
      1,
      true,
      false
    ])
    sink.drains[0]!()
    expect(text(sink)).toMatch(/"two"[^]*"three"/)
    expect(sink.drains).toHaveLength(1)
  })

  it('breaks its silence where it can write, and leaves that to what keeps its wire open', () => {
    const sink = new MuteSink()
    const { connection } = connected(sink)
    sink.written.length = 0
    sink.isKeptAlive = true
    expect([connection.breakSilence(), sink.written]).toEqual([true, []])
    sink.isKeptAlive = false
    expect([connection.breakSilence(), sink.written]).toEqual([true, [expect.stringMatching(/^:/)]])
    connection.giveWay()
    expect([connection.breakSilence(), sink.written.length]).toEqual([false, 1])
  })

  it('that has made way writes no more, and ends when it is its time', () => {
    const sink = new MuteSink()
    const { stream, connection } = connected(sink)
    sink.pending = 0
    connection.giveWay()
    append(stream, progress('late'))
    connection.flush()
    expect([text(sink).includes('late'), sink.ends]).toEqual([false, 0])
    connection.takeOver()
    expect([connection.isClosed, sink.ends]).toEqual([true, 1])
  })

  it('is disconnected at its age only where its client comes back, by an id or by the link', () => {
    const aged = (reconnects: boolean, follows: boolean): number => {
      const sink = new MuteSink()
      const { stream, connection } = connected(sink, [], { ...MANNERS, reconnects })
      if (follows) stream.noteFollowsLinks()
      connection.hasAged()
      return sink.ends
    }
    expect([aged(true, false), aged(false, true), aged(false, false)]).toEqual([1, 1, 0])
  })

  it('once disconnected, it is so', () => {
    const sink = new MuteSink()
    const { connection } = connected(sink)
    expect([connection.disconnect(), connection.disconnect(), sink.ends]).toEqual([true, true, 1])
  })

  it('says what has gathered before it is disconnected', () => {
    const sink = new MuteSink()
    const { stream, connection } = connected(sink)
    append(stream, progress('one'))
    connection.disconnect(7)
    expect(text(sink)).toMatch(/"one"[^]*retry: 7\n/)
  })

  it('of a call stays when those that only listen are ended', () => {
    const sink = new MuteSink()
    const { stream, connection } = connected(sink)
    connection.stopListening(7)
    expect([stream.state, sink.ends]).toEqual(['live', 0])
  })
})
