// The ids of sessions on wires.
import { nanoid } from 'nanoid'

const SESSION_ID = 'transport:'

/** Makes a session id that no HTTP endpoint would make. */
export function newSessionId(): string {
  return SESSION_ID + nanoid()
}

/** Whether a stream was opened on a wire, and not over HTTP. */
export function isOfTransport({ sessionId }: { readonly sessionId: string | undefined }): boolean {
  return sessionId?.startsWith(SESSION_ID) === true
}
