// A connection over sockets that behave like none that a spec can open at will: what it was lent
// comes back whatever becomes of them.

import { expect, it } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { responseSink } from '../../../lib/endpoint/connections.js'
import { Connection, type Sink } from '../../../lib/readers/connection.js'
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

function connected(sink: Sink) {
  const { table } = newTable({ window: 0 })
  const opened = open(table)
  const host = { silences: undefined, ages: undefined, closed: none, waits: none, goesOn: none }
  const options = {
    retry: 1,
    retryAtWill: 1,
    lost: none,
    debug: none
  }
  const connection = new Connection(opened.stream, 0, sink, MANNERS, options, host)
  connection.flush()
  return { ...opened, table, connection }
}

it('does not part in peace from a socket that is broken, and gets back what that was lent', () => {
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
