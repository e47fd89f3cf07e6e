// A 400 to a session that was not handed out here becomes a 404: else, hosts keep it.
import type { RequestContext } from './request-context.js'
import { type HeadInMaking, patchedResponse } from '../http/patched-response.js'

/** Notes which sessions the endpoint knows, and says of others what the specification does. */
export function watchSession(context: RequestContext): void {
  const { instance, session, facts, isUnread, res } = context
  const mayBegin = isUnread || facts.isInitialize
  if (!mayBegin && (session === undefined || instance.sessions.isSeen(session))) return
  patchedResponse(res).changeHead(head => {
    if (head.status >= 200 && head.status < 300) note(context, head)
    if (isUnknown(context, head.status)) head.status = 404
    return undefined
  })
}

function isUnknown(context: RequestContext, status: number): boolean {
  const { instance, session, method } = context
  if (status !== 400 || session === undefined || instance.sessions.isSeen(session)) return false
  if (context.learnParsed().isInitialize) return false
  instance.debug('%s in a session that was not begun here: its 400 becomes 404', method)
  return true
}

function note({ instance, session, owner }: RequestContext, head: HeadInMaking): void {
  const { sessions } = instance
  const named = head.header('mcp-session-id')
  if (session !== undefined) sessions.see(owner, session)
  if (named !== undefined) sessions.see(owner, sessions.nameOf(named))
}
