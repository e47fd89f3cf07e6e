// The message that asks for a resource, and what may be wrong with it.
import type { Message, RequestId } from '../protocol/json-rpc.js'
import { invalidParams, notSupported, type ResourceError } from './resource-errors.js'
import { headerUri } from './resource-head.js'

/**
 * The most characters of a URI in its form for a header: Node's clients take heads of 16 KiB at
 * most.
 */
const LONGEST_URI = 4096

export type ResourceMessage = Message & { readonly id: RequestId }

export function isUri(uri: unknown): uri is string {
  if (typeof uri !== 'string' || uri.length > LONGEST_URI) return false
  return URL.canParse(uri) && headerUri(uri).length <= LONGEST_URI
}

export function badUri(): ResourceError {
  return invalidParams(
    `uri must be an absolute URI of at most ${LONGEST_URI} characters, percent-encoded`
  )
}

export function notDeclared(uri: string): ResourceError {
  const suggestion =
    'Declare the client capability resourceStreaming, in initialize or in _meta of the request'
  return notSupported({ uri, suggestion })
}
