// What a client's messages change about running calls once the endpoint has accepted them: answers
// to its requests, cancelled requests, ended sessions.
import { onceAnswered } from '../endpoint/acceptance.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { cancelledRequest, isResponse, type RequestId } from '../protocol/json-rpc.js'
import type { CallStore } from './call-store.js'

/**
 * Calls `answered` for each call of the session with each request of the endpoint that the client
 * has answered, once the endpoint has accepted the answers. They are not asked again then.
 */
export function eachAnswer<T>(
  context: RequestContext,
  store: { listFor(session: string | undefined, owner: string): Iterable<T> },
  answered: (call: T, requestId: RequestId) => void
): void {
  const { owner, session } = context
  if (session === undefined || !(context.isUnread || context.messages.some(isResponse))) return
  onceAnswered(context, ({ isAccepted }) => {
    if (!isAccepted) return
    const answers = context.messages.filter(isResponse)
    for (const call of store.listFor(session, owner))
      for (const { id } of answers) answered(call, id)
  })
}

/** Ends calls that are cancelled, or whose session ends, once the endpoint has accepted that. */
export function watchEndings(store: CallStore, context: RequestContext): void {
  const { req, owner, session } = context
  // Without a session and without an owner, a request id says nothing about whose request it is.
  if ((session === undefined && owner === '') || !store.isBusy) return
  onceAnswered(context, ({ isAccepted, isSessionLost }) => {
    // A request that has been answered does not wait any more: a client that cancels it has only
    // not got that answer.
    const cancelled = context.messages.flatMap(message => cancelledRequest(message) ?? [])
    if (isAccepted)
      for (const call of store.findByRequests(cancelled, owner, session)) call.cancel(req)
    if (session === undefined || (!isSessionLost && !(isAccepted && req.method === 'DELETE')))
      return
    for (const call of store.listFor(session, owner)) {
      if (isSessionLost) call.fail('session-ended')
      else call.cancel(req)
    }
  })
}
