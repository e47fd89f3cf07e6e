// How a response of ours becomes what a reader writes to.
import { JSON_TYPE } from '../protocol/media-types.js'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type KeptText, sizeOf } from '../readers/outgoing.js'
import type { Sink } from '../readers/sink.js'
import { closeWhenIdle, whenClosed } from '../http/sockets.js'
import { isKeptAlive, isRelayed } from '../http/loopback.js'
import {
  isBroken,
  MOST_COPIED,
  NATIVE_WRITE,
  pendingBytes,
  writeChunk
} from '../http/node-internals.js'
import { claim, endGuarded, isWritable, writeGuarded } from '../http/reply.js'
import type { RequestContext } from './request-context.js'

/** A response of ours as a sink; `beforeEnd` may write the last of it. */
export function responseSink(
  req: IncomingMessage,
  res: ServerResponse,
  beforeEnd?: () => void
): Sink {
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
      if (res.destroyed) return listener()
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

/** Gives an answer in JSON that may be large, or a part of it that is kept. */
export function answerWhole(context: RequestContext, json: string, kept?: KeptText): void {
  const { instance, req, res, owner } = context
  const { outgoing } = instance.connections
  if (!claim(res)) return
  const answer = outgoing.answerOf(json, kept)
  res.writeHead(200, {
    'Content-Type': JSON_TYPE,
    'Cache-Control': 'no-store',
    'Content-Length': sizeOf(answer)
  })
  outgoing.write(responseSink(req, res), owner, answer)
}
