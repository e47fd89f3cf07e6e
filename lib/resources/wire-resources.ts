// `resources/stream` on transports that carry no bytes: their clients get download URLs.
import { revisionIn } from '../protocol/envelope.js'
import { type Message, paramsOf, type RequestId } from '../protocol/json-rpc.js'
import type { WireClient, WireResources } from '../protocol/shared-wire.js'
import type { ResourceDownloads } from './resource-downloads.js'
import {
  internalError,
  invalidParams,
  notSupported,
  type ResourceError
} from './resource-errors.js'
import {
  declarationIn,
  declarationOf,
  envelopeOf,
  isOfResources,
  maxStreamSizeOf,
  speakingOfStreams
} from './resource-negotiation.js'
import { Waiting } from './resource-request.js'
import type { ResourceService } from './resource-service.js'
import { headerUri } from './resource-head.js'

/** `undefined`: there are no downloads without `publicUrl`. */
export function resourcesOnWires(
  service: ResourceService,
  downloads: ResourceDownloads
): WireResources | undefined {
  const { publicUrl, streamable } = service.settings
  if (publicUrl === undefined) return undefined
  /** [SEP-2532, WebSocket Transport] A wire gets a download URL, whatever the mode is over HTTP. */
  const resultOnWire = async (
    message: ResourceMessage,
    { owner, signal, capabilities, sessionId, ask }: WireClient
  ): Promise<Record<string, unknown>> => {
    service.throwIfClosing()
    const { uri } = paramsOf(message)
    if (!isUri(uri)) throw badUri()
    const declaration = declarationOf(message, declarationIn(capabilities))
    if (declaration === undefined) throw notDeclared(uri)
    const wanted = {
      uri,
      owner,
      sessionId: undefined,
      revision: revisionIn(message),
      envelope: envelopeOf(message),
      maxStreamSize: maxStreamSizeOf(declaration)
    }
    const work = new Waiting()
    const gone = (): void => work.gone()
    signal.addEventListener('abort', gone)
    try {
      return await service.openOnWire(
        work,
        wanted,
        ({ facts }) => downloads.ticketFor(wanted, facts, publicUrl, { sessionId, ask }),
        ask
      )
    } finally {
      signal.removeEventListener('abort', gone)
    }
  }
  return {
    isAbout: isOfResources,
    speakOf: (method, result) =>
      speakingOfStreams(method, result, streamable, error => service.tell(error)),
    answer: async (message, wire) => {
      const { id } = message
      try {
        const result = await resultOnWire(message, wire)
        return { jsonrpc: '2.0', id, result }
      } catch (error) {
        const { uri } = paramsOf(message)
        const failure = service.failureOf(error) ?? internalError(isUri(uri) ? uri : undefined)
        const { code, message: text, data } = failure
        const told = { code, message: text, ...(data !== undefined && { data }) }
        return { jsonrpc: '2.0', id, error: told }
      }
    },
    ended: (sessionId, owner) => downloads.tickets.endSession(sessionId, owner)
  }
}

/**
 * The most characters of a URI in its form for a header: Node's clients take heads of 16 KiB at
 * most.
 */
const LONGEST_URI = 4096

export type ResourceMessage = Message & { readonly id: RequestId }

/** The message that asks for a resource, and what may be wrong with it. */
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
