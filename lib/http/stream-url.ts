// A request whose URL names a stream: who may make it, and which room it is for.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { parseStreamName, type StreamName } from '../core/event-id.js'
import type { Tombstone } from '../core/finished-streams.js'
import { Stream } from '../core/stream.js'
import { callNamed, cancelCall, cancelStream } from './cancel.js'
import { isForeignOrigin, mayRead, sessionOf } from './guards.js'
import { takeAnswers } from './handoff.js'
import { type House, refuseAndCount, refuseUrl } from './house.js'
import { resumeStream } from './resume.js'

const METHODS = ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']

/** Answers a request whose URL names a stream. */
export async function answerStreamUrl(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  names: readonly string[],
  owner: string
): Promise<void> {
  // Before any look-up: a page that may not read streams learns nothing about them.
  if (isForeignOrigin(req, house.allowedOrigins)) return refuseAndCount(house, res, 403, 'foreign-origin')
  const methods = house.handoff === 'never' ? METHODS.filter(method => method !== 'POST') : METHODS
  if (!methods.includes(req.method ?? ''))
    return refuseUrl(house, res, 405, 'method-not-allowed', { Allow: methods.join(', ') })

  const [text = ''] = names
  const call = req.method === 'DELETE' ? callNamed(house, req, text, owner) : undefined
  if (call !== undefined && call.outcome?.kind !== 'stream') return cancelCall(house, call, req, res)
  const name = call?.outcome?.kind === 'stream' ? { id: call.outcome.streamId, start: 0 } : nameIn(names)
  const found = name === undefined ? undefined : await house.table.find(name.id)
  const session = sessionOf(req)
  if (res.destroyed) return
  const isTurn = found !== undefined && name !== undefined && name.start <= found.last
  if (!isTurn || !isTheirs(req, found, owner, session)) return refuseAndCount(house, res, 404, 'stream-unknown')
  if (req.method === 'DELETE') return cancelStream(house, found, req, res)

  if (found instanceof Stream) found.prove()
  if (found.sessionId !== undefined && !house.sessions.hasProved(found.sessionId)) {
    house.sessions.prove(found.sessionId)
    // Its other calls may have been opened before this was known.
    for (const stream of house.table.ofSession(found.sessionId, found.owner)) stream.prove()
  }
  if (req.method === 'POST') return takeAnswers(house, req, res, found, name)
  resumeStream(house, req, res, found, name)
}

/** An absent session is accepted, a different one is not: the id names the stream, the credentials name its owner. */
export function isTheirs(
  req: IncomingMessage,
  found: Stream | Tombstone,
  owner: string,
  session: string | undefined
): boolean {
  return (
    mayRead(req, found.owner, owner) &&
    (session === undefined || found.sessionId === undefined || session === found.sessionId)
  )
}

function nameIn(names: readonly string[]): StreamName | undefined {
  return names.length === 1 ? parseStreamName(names[0] as string) : undefined
}
