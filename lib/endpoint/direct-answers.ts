// Notes which clients send their answers at once, and do not wait for the hand-off: those that
// answer our pings, or requests of the endpoint, at the endpoint.
import { isResponse } from '../protocol/json-rpc.js'
import type { Stream } from '../streams/stream.js'
import type { InstanceParts } from './instance-parts.js'
import type { RequestContext } from './request-context.js'

/**
 * The client of a stream has answered one of its requests at the endpoint, not at the stream URL.
 */
export function noteDirectAnswer(parts: InstanceParts, stream: Stream): void {
  // A client that follows links may do both; it counts as one that waits.
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
