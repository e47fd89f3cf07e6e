// A request whose URL names a stream: who may make it, and which room it is for.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { parseStreamName, type StreamName } from '../protocol/event-id.js'
import { isStream, type Tombstone } from '../streams/finished-streams.js'
import type { Stream } from '../streams/stream.js'
import { callNamed, cancelCall, cancelStream } from './cancel.js'
import { streamParameters } from '../protocol/link-header.js'
import { isForeignOrigin, mayRead, sessionOf } from '../access/guards.js'
import { takeAnswers } from './client-answers.js'
import { type InstanceParts, refuseAndCount, refuseUrl } from '../endpoint/instance-parts.js'
import { keyOf } from '../endpoint/idempotency.js'
import { hasMcpHeaders, streamNamesIn } from '../endpoint/mcp-request.js'
import { canAnswer } from '../endpoint/reply.js'
import { resumeStream } from './resume.js'

/**
 * What a request's URL calls a stream by. A parameter counts in the form of a stream's name; for a
 * DELETE also in that of a key, by which a call is cancelled before its response begins: of a
 * client of MCP, whose DELETE would end its session otherwise.
 */
export function streamsNamed(
  parts: InstanceParts,
  req: IncomingMessage,
  owner: string
): readonly string[] {
  const names = streamNamesIn(req)
  if (names.length > 0 || req.method !== 'DELETE') return names
  const name = streamParameters(req.url ?? '').find(value => keyOf(req, owner, value) !== undefined)
  if (name === undefined) return []
  return hasMcpHeaders(req) || callNamed(parts, req, name, owner) !== undefined ? [name] : []
}

const METHODS = ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']

/** Answers a request whose URL names a stream. */
export async function answerStreamUrl(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  names: readonly string[],
  owner: string
): Promise<void> {
  // Before any look-up: a page that may not read streams learns nothing about them.
  if (isForeignOrigin(req, parts.allowedOrigins))
    return refuseAndCount(parts, res, 403, 'foreign-origin')
  const methods = parts.handoff === 'never' ? METHODS.filter(method => method !== 'POST') : METHODS
  if (!methods.includes(req.method ?? ''))
    return refuseUrl(parts, res, 405, 'method-not-allowed', { Allow: methods.join(', ') })

  const [text = ''] = names
  const call = req.method === 'DELETE' ? callNamed(parts, req, text, owner) : undefined
  const outcome = call?.kind === 'settled' ? call.outcome : undefined
  if (call !== undefined && outcome?.kind !== 'stream')
    return cancelCall(parts, call, text, req, res)
  const name = outcome?.kind === 'stream' ? { id: outcome.streamId, start: 0 } : nameIn(names)
  const found = name === undefined ? undefined : await parts.table.find(name.id)
  const session = sessionOf(req)
  if (!canAnswer(res)) return
  const isTurn = found !== undefined && name !== undefined && name.start <= found.last
  if (!isTurn || !isTheirs(req, found, owner, session))
    return refuseAndCount(parts, res, 404, 'stream-unknown')
  if (req.method === 'DELETE') return cancelStream(parts, found, req, res)

  if (isStream(found)) found.prove()
  if (found.sessionId !== undefined && !parts.sessions.followsLinks(found.owner, found.sessionId)) {
    parts.sessions.prove(found.owner, found.sessionId)
    // Its other calls may have been opened before this was known.
    for (const stream of parts.table.ofSession(found.sessionId, found.owner)) stream.prove()
  }
  if (req.method === 'POST') return takeAnswers(parts, req, res, found, name)
  resumeStream(parts, req, res, found, name)
}

/**
 * An absent session is accepted, a different one is not: the id names the stream, the credentials
 * name its owner.
 */
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
