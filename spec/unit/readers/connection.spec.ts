// A connection over sockets that a spec cannot get from Node at will: whatever happens to them,
// retained memory is released.

import { afterEach, describe, expect, it } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { responseSink } from '../../../lib/http/response-sink.js'
import { Connection, type ConnectionHost } from '../../../lib/readers/connection.js'
import type { ReconnectRule } from '../../../lib/protocol/revisions.js'
import type { Sink } from '../../../lib/readers/sink.js'
import { DueQueue } from '../../../lib/streams/due-queue.js'
import type { Stream } from '../../../lib/streams/stream.js'
import type { StreamRegistry } from '../../../lib/streams/stream-registry.js'
import { append, complete, MANNERS, newTable, open, progress } from '../streams/fakes.js'

const none = (): void => undefined

/** A socket that takes all bytes and reports nothing. */
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

  /** The listeners for `drain` that the connection has added. */
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

const NO_QUEUES: Pick<ConnectionHost, 'silences' | 'ages'> = {
  silences: undefined,
  ages: undefined
}

function connected(
  sink: Sink,
  messages: readonly object[] = [],
  profile = MANNERS,
  queues = NO_QUEUES
) {
  const { table } = newTable({ window: 0 })
  const { stream, ...rest } = open(table)
  opened.push({ stream, table })
  for (const message of messages) append(stream, message)
  const host = { ...queues, closed: none, waits: none, goesOn: none }
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

it('does not end cleanly on a broken socket, and releases what the socket has not taken', () => {
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
  // No callback is ever called for what was written.
  sink.close()
  expect(table.counts().bytes).toBe(0)
})

it.each([{ destroyed: true }, { destroyed: false, errored: new Error('ECONNRESET') }])(
  'a sink is over as soon as its socket is broken, before any event: %j',
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

it('waits for no time any more once it has closed', () => {
  const [silences, ages] = [new DueQueue(1000), new DueQueue(1000)]
  const { stream, connection } = connected(new MuteSink(), [], MANNERS, { silences, ages })
  expect([silences.isEmpty, ages.isEmpty]).toEqual([false, false])
  complete(stream)
  expect([connection.isClosed, silences.isEmpty, ages.isEmpty]).toEqual([true, true, true])
  for (const queue of [silences, ages]) queue.close()
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
  it('is written together with small events, and retains nothing', () => {
    const sink = new MuteSink()
    const { table, stream, connection } = connected(sink, [progress('one'), progress('two')])
    expect(sink.written).toEqual([
      expect.stringMatching(/^id: [^]*\nretry: 1\n[^]*"one"[^]*"two"[^]*\n\n$/)
    ])
    expect([connection.cursor, stream.written]).toEqual([2, 2])
    stream.log.clear()
    expect(table.counts().bytes).toBe(0)
  })

  it('is written alone if there are no events yet, or large ones', () => {
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

  it('writes all events of a tick together, at its end', async () => {
    const sink = new MuteSink()
    const { stream } = connected(sink)
    const { length } = sink.written
    const { corks } = sink
    for (const name of ['one', 'two']) append(stream, progress(name))
    expect(sink.written).toHaveLength(length)
    await new Promise(process.nextTick)
    expect([text(sink), sink.corks]).toEqual([expect.stringMatching(/"one"[^]*"two"/), corks + 1])
  })

  it('waits for every drain with the same listener, and then writes on', () => {
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

  it('that is superseded writes no more, and ends when it is taken over', () => {
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

  it('is disconnected at its age only if its client comes back, by an id or by the link', () => {
    const aged = (reconnects: ReconnectRule, shown?: 'noteFollowsLinks' | 'noteResumed') => {
      const sink = new MuteSink()
      const { stream, connection } = connected(sink, [], { ...MANNERS, reconnects })
      if (shown !== undefined) stream[shown]()
      connection.disconnect()
      return sink.ends
    }
    expect(aged('always')).toBe(1)
    expect([
      aged('when-resumed'),
      aged('when-resumed', 'noteResumed'),
      aged('when-resumed', 'noteFollowsLinks')
    ]).toEqual([0, 1, 1])
    expect([
      aged('when-links-followed'),
      aged('when-links-followed', 'noteResumed'),
      aged('when-links-followed', 'noteFollowsLinks')
    ]).toEqual([0, 0, 1])
  })

  it('can be disconnected twice, and ends once', () => {
    const sink = new MuteSink()
    const { connection } = connected(sink)
    expect([connection.disconnect(), connection.disconnect(), sink.ends]).toEqual([true, true, 1])
  })

  it('writes all events before it is disconnected', () => {
    const sink = new MuteSink()
    const { stream, connection } = connected(sink)
    append(stream, progress('one'))
    connection.disconnect(7)
    expect(text(sink)).toMatch(/"one"[^]*retry: 7\n/)
  })

  it('of a call stays open when listen channels are ended', () => {
    const sink = new MuteSink()
    const { stream, connection } = connected(sink)
    connection.stopListening(7)
    expect([stream.state, sink.ends]).toEqual(['live', 0])
  })
})
