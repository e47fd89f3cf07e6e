// Ids for requests that a server sends over another session's wire, where its own ids could clash.
import {
  cancelledRequest,
  isRequest,
  isRequestId,
  type Message,
  paramsOf,
  type RequestId
} from './json-rpc.js'

const FOREIGN_ID = /^([A-Za-z0-9_-]{21})~(.+)$/s

interface ForeignId {
  /** The stream or the call that the request belongs to. */
  readonly originId: string
  readonly id: RequestId
}

/** Contains all that is needed to route the answer, so nothing has to be kept. */
export function foreignId(originId: string, id: RequestId): string {
  return `${originId}~${JSON.stringify(id)}`
}

/** A message of a server with a foreign id for its request, or for the request that it cancels. */
export function withForeignIds<M extends Message>(message: M, originId: string): M {
  if (isRequest(message)) return { ...message, id: foreignId(originId, message.id) }
  const withdrawn = cancelledRequest(message)
  if (withdrawn === undefined) return message
  const requestId = foreignId(originId, withdrawn)
  return { ...message, params: { ...paramsOf(message), requestId } }
}

export function parseForeignId(value: unknown): ForeignId | undefined {
  const match = typeof value === 'string' ? FOREIGN_ID.exec(value) : null
  if (match === null) return undefined
  try {
    const id: unknown = JSON.parse(match[2] as string)
    return isRequestId(id) ? { originId: match[1] as string, id } : undefined
  } catch {
    return undefined
  }
}
