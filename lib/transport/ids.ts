// The ids of sessions on wires.
import { nanoid } from 'nanoid'

const SESSION_ID = 'transport:'

/** Unlike any session id of an HTTP endpoint's. */
export function newSessionId(): string {
  return SESSION_ID + nanoid()
}

/** Whether a stream was opened on a wire, and not over HTTP. */
export function isOfTransport({ sessionId }: { readonly sessionId: string | undefined }): boolean {
  return sessionId?.startsWith(SESSION_ID) === true
}
