// A POST of answers to pings of ours, or of answers that the endpoint has got already: it is
// accepted (202), and not passed on.
import { isResponse, isTooMany } from '../protocol/json-rpc.js'
import { notePongs } from '../endpoint/direct-answers.js'
import { answer } from '../endpoint/reply.js'
import type { Answer, Context } from './route.js'

export function ownAnswers(context: Context): Answer | undefined {
  if (isTooMany(context.messages)) return undefined
  if (!notePongs(context) && !isHandedOver(context)) return undefined
  return () => {
    context.instance.debug(
      'POST of answers that are ours, or that the endpoint has already: accepted, and not passed on'
    )
    answer(context.res, 202)
  }
}

/** Whether it only repeats answers that came by a hand-off, of which the first counts. */
function isHandedOver({ instance, messages, session, owner }: Context): boolean {
  if (session === undefined || messages.length === 0 || !messages.every(isResponse)) return false
  const streams = instance.table.index.ofSession(session, owner)
  return messages.every(({ id }) =>
    streams.some(stream => stream.inputWait?.requests.wasHandedOver(id) === true)
  )
}
