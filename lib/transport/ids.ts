// Ids of our making: of sessions, and of requests that go over another session's wire.
import { nanoid } from 'nanoid'
import { isRequestId, type RequestId } from '../core/json-rpc.js'

const SESSION_ID = 'transport:'

/** Unlike any session id of an HTTP endpoint's. */
export function newSessionId(): string {
  return SESSION_ID + nanoid()
}

/** Whether a stream was opened on a wire, and not over HTTP. */
export function isOfTransport({ sessionId }: { readonly sessionId: string | undefined }): boolean {
  return sessionId?.startsWith(SESSION_ID) === true
}

const FOREIGN_ID = /^([A-Za-z0-9_-]{21})~(.+)$/s

/** It says whose request it is, so that nobody has to remember it. */
export function foreignId(streamId: string, id: RequestId): string {
  return `${streamId}~${JSON.stringify(id)}`
}

/** Reads such an id; `undefined` for any other. */
export function parseForeignId(value: RequestId): { readonly streamId: string; readonly id: RequestId } | undefined {
  const match = typeof value === 'string' ? FOREIGN_ID.exec(value) : null
  if (match === null) return undefined
  try {
    const id: unknown = JSON.parse(match[2] as string)
    return isRequestId(id) ? { streamId: match[1] as string, id } : undefined
  } catch {
    return undefined
  }
}
