// How a response of ours becomes what a client is answered by.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Sink } from '../readers/sink.js'
import { isKeptAlive, isRelayed } from './loopback.js'
import { isBroken, MOST_COPIED, NATIVE_WRITE, pendingBytes, writeChunk } from './node-internals.js'
import { claim, endGuarded, isWritable, writeGuarded } from './reply.js'
import { closeWhenIdle, whenClosed } from './sockets.js'

/** A response, and its methods as those in front of us have left them: that of a captured one. */
export interface OutgoingHead {
  readonly res: ServerResponse
  readonly methods: Pick<ServerResponse, 'getHeader' | 'setHeader'>
}

/** The response to a client: the endpoint's own, underneath its capture, or ours. */
export interface ClientSink extends Sink {
  /**
   * Sends a head of ours. `false`: the client has gone, or middleware in front of us has answered.
   *
   * @param type its `Content-Type`; `undefined`: one of the headers that are set, or none.
   */
  sendHead(
    status: number,
    type: string | undefined,
    setHeaders: (head: OutgoingHead) => void
  ): boolean
}

/** @param beforeEnd may write the last of it. */
export function responseSink(
  req: IncomingMessage,
  res: ServerResponse,
  beforeEnd?: () => void
): ClientSink {
  const { socket } = req
  const isReusable = res.write === NATIVE_WRITE
  return {
    isRelayed: isRelayed(req),
    get isKeptAlive() {
      return isKeptAlive(req)
    },
    tellsWritten: isReusable,
    copies: isReusable ? MOST_COPIED : 0,
    get pending() {
      return pendingBytes(socket, res)
    },
    sendHead(status, type, setHeaders) {
      if (!claim(res)) return false
      if (type !== undefined) res.setHeader('Content-Type', type)
      setHeaders({ res, methods: res })
      res.writeHead(status)
      return true
    },
    cork: () => socket.cork(),
    uncork: () => socket.uncork(),
    write: (bytes, onWritten) =>
      writeGuarded(res, () =>
        isReusable
          ? writeChunk(res, onWritten === undefined ? [bytes] : [bytes, onWritten])
          : res.write(bytes)
      ),
    get isOver() {
      return !isWritable(res) || isBroken(socket)
    },
    end() {
      beforeEnd?.()
      endGuarded(res)
    },
    destroy: () => void res.destroy(),
    get isGone() {
      return res.destroyed
    },
    onDrain: listener => void res.on('drain', listener),
    onClose(listener) {
      const gone = (): void => {
        unwatch()
        listener()
      }
      const unwatch = whenClosed(socket, gone)
      res.once('close', gone)
    },
    closeSocket(onClosed) {
      if (socket.destroyed) return onClosed()
      res.once('finish', () => closeWhenIdle(socket))
      whenClosed(socket, onClosed)
    }
  }
}
