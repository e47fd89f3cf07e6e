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
    return true
  }

  end(): void {
    this.ends++
  }

  readonly destroy = none
  readonly cork = none
  readonly uncork = none
  readonly onDrain = none
  close = none

  onClose(listener: () => void): void {
    this.close = listener
  }

  readonly closeSocket = none
}

const opened: { stream: Stream; table: StreamRegistry }[] = []

function connected(sink: Sink, messages: readonly object[] = []) {
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
  const connection = new Connection(stream, 0, sink, MANNERS, options, host)
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

describe('the first block', () => {
  afterEach(() => {
    for (const { stream, table } of opened.splice(0)) {
      stream.cancel()
      table.beginClosing(1)
    }
  })

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
