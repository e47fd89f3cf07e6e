// `stream/resume`, `stream/poll` and `stream/poll/all` (Streams draft): always answered here; the
// endpoint never gets them.
import type { SavedResult } from '../backplane/results.js'
import { isStreamMethod, resultResponse } from '../protocol/stream-messages.js'
import { refuseAndCount } from '../endpoint/refusals.js'
import { answerRefusal } from '../endpoint/reply.js'
import { answerWhole } from '../endpoint/response-sink.js'
import { giveRest } from './resume-response.js'
import type { Answer, Context } from './route.js'
import { whatIsAsked } from './stream-request.js'

/** A POST with one of these messages. */
export function streamMethod(context: Context): Answer | undefined {
  if (!context.messages.some(isStreamMethod)) return undefined
  if (!context.isForeign) return () => answerStreamMethod(context)
  // Before any look-up, as on stream URLs.
  return () => refuseAndCount(context, 403, 'foreign-origin')
}

/** @param saved what is left of the stream, if its instance has gone. */
export async function answerStreamMethod(context: Context, saved?: SavedResult): Promise<void> {
  const { res } = context
  const asked = await whatIsAsked(context, saved)
  switch (asked.kind) {
    case 'left':
      return
    case 'result':
      return answerWhole(context, resultResponse(asked.id, asked.result))
    case 'refused':
      return answerRefusal(res, asked.id, asked.refusal)
    case 'resume':
      return giveRest(context, asked)
  }
}
