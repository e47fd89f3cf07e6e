// `resources/stream` on transports that carry no bytes: their clients get download URLs.
import { revisionIn } from '../protocol/envelope.js'
import { paramsOf } from '../protocol/json-rpc.js'
import type { WireClient, WireResources } from '../protocol/shared-wire.js'
import type { ResourceDownloads } from './resource-downloads.js'
import { internalError } from './resource-errors.js'
import { badUri, isUri, notDeclared, type ResourceMessage } from './resource-message.js'
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
