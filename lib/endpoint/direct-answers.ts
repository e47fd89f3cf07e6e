// Clients that send their answers at once, and so do not wait until it is their turn: their pings,
// and what they answer, tell.
import { isResponse } from '../protocol/json-rpc.js'
import type { Stream } from '../streams/stream.js'
import type { InstanceParts } from './instance-parts.js'
import type { RequestContext } from './request-context.js'

/**
 * The client of a stream has answered a request of its at the endpoint, and not at the stream URL.
 */
export function noteDirectAnswer(parts: InstanceParts, stream: Stream): void {
  // One that follows links does both: what it hands over counts.
  if (stream.followsLinks) return
  stream.noteDirectAnswer()
  if (stream.sessionId !== undefined)
    parts.sessions.noteDirectAnswer(stream.owner, stream.sessionId)
}

/**
 * Notes the answers to our own pings in a POST to the endpoint. `true`: there is nothing else in
 * it.
 */
export function notePongs({ instance, messages, session, owner }: RequestContext): boolean {
  let count = 0
  for (const message of messages) {
    const stream = isResponse(message) ? instance.table.index.findPinged(message.id) : undefined
    if (stream === undefined || stream.owner !== owner || stream.sessionId !== session) continue
    noteDirectAnswer(instance, stream)
    count++
  }
  return count > 0 && count === messages.length
}
