// A connection over sockets that behave like none that a spec can open at will: what it was lent
// comes back whatever becomes of them.

import { afterEach, beforeEach, expect, it, jest } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { responseSink } from '../../../lib/endpoint/connections.js'
import { Connection, type ConnectionHost, type Sink } from '../../../lib/readers/connection.js'
import { StallWatch } from '../../../lib/readers/stall-watch.js'
import { stopTheClock } from '../../features/limits/setup.js'
import { append, complete, MANNERS, newTable, open, progress } from '../streams/fakes.js'

beforeEach(stopTheClock)
afterEach(() => {
  jest.useRealTimers()
})

const DEADLINE = 1000
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

  destroy = none
  cork = none
  uncork = none
  onDrain = none
  onClose = none
  closeSocket = none
}

function connected(sink: Sink) {
  const { table } = newTable({ window: 0 })
  const opened = open(table)
  const watch = new StallWatch(DEADLINE)
  const host: ConnectionHost = {
    closed: none,
    waits: connection => watch.add(connection),
    goesOn: connection => watch.delete(connection)
  }
  const options = {
    retry: 1,
    retryAtWill: 1,
    keepAlive: null,
    disconnectAfter: null,
    lost: none,
    debug: none
  }
  const connection = new Connection(opened.stream, 0, sink, MANNERS, options, host)
  connection.flush()
  return { ...opened, table, connection }
}

it('gives back what a socket was lent that died without a word before the end', () => {
  const sink = new MuteSink()
  const { table, stream } = connected(sink)
  // Nothing is in it any more, and nobody has been called back.
  sink.end = () => void (sink.pending = 0)
  complete(stream)
  expect(table.counts().bytes).toBeGreaterThan(0)
  jest.advanceTimersByTime(60_000)
  expect(table.counts()).toMatchObject({ finished: 0, bytes: 0 })
})

it('does not part in peace from a socket that is broken, though it has written everything', () => {
  const sink = new MuteSink()
  const { table, stream, connection } = connected(sink)
  append(stream, progress('one'))
  connection.flush()
  sink.isOver = true
  sink.pending = 0
  connection.takeOver()
  expect([sink.ends, connection.isClosed]).toEqual([0, true])
  stream.cancel()
  jest.advanceTimersByTime(60_000)
  expect(table.counts()).toMatchObject({ live: 0, bytes: 0 })
})

it.each([{ destroyed: true }, { destroyed: false, errored: new Error('ECONNRESET') }])(
  'is over as soon as its socket is broken, before anybody is told: %j',
  socket => {
    const res = { writableEnded: false, destroyed: false } as ServerResponse
    const over = (state: object) => responseSink({ socket: state } as IncomingMessage, res).isOver
    expect([over(socket), over({ destroyed: false, errored: null })]).toEqual([true, false])
  }
)
