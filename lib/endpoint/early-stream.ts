// Opens the stream of a call whose client is answered before the endpoint has begun to answer.
import { ONE_CONNECTION } from '../protocol/revisions.js'
import type { Stream } from '../streams/stream.js'
import type { Producer } from '../streams/stream-types.js'
import type { RequestContext } from './request-context.js'

/** `undefined`: no room. @param isDurable its client may come back to it. */
export function openEarlyStream(
  context: RequestContext,
  id: string,
  isDurable: boolean,
  producer: Producer
): Stream | undefined {
  const { instance, owner, session, facts, profile, keyed } = context
  const stream = instance.table.open(
    {
      id,
      kind: 'request',
      owner,
      requestIds: facts.requestIds,
      sessionId: session,
      profile: isDurable ? profile : ONE_CONNECTION,
      isEphemeral: !isDurable,
      callKey: isDurable ? keyed?.key : undefined,
      resumeInterval: isDurable ? context.announcementIn(session) : undefined
    },
    producer
  )
  if (stream === undefined) instance.count('refused', undefined, 'full')
  return stream
}
