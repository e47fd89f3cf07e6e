// `resources/stream` on transports that carry no bytes: their clients get download URLs.
import { revisionIn } from '../protocol/envelope.js'
import { paramsOf } from '../protocol/json-rpc.js'
import type { WireClient, WireMessage, WireResources } from '../protocol/shared-wire.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import type { ResourceDownloads } from './resource-downloads.js'
import { closing, internalError } from './resource-errors.js'
import { badUri, isUri, notDeclared, type ResourceMessage } from './resource-message.js'
import {
  declarationIn,
  declarationOf,
  envelopeOf,
  isOfResources,
  maxStreamSizeOf,
  speakingOfStreams
} from './resource-negotiation.js'
import { type Requester, Waiting } from './resource-request.js'
import type { ResourceService } from './resource-service.js'
import { discardSource } from './resource-source.js'
import type { ResourceSettings } from './resource-types.js'

/** What answers on a wire are made of. */
export interface ResourceParts {
  readonly settings: ResourceSettings
  readonly parts: Pick<InstanceParts, 'isClosing'>
  readonly service: ResourceService
  readonly downloads: ResourceDownloads
}

/**
 * For transports that carry no bytes; `undefined`: without a public URL there are no downloads.
 */
export function resourcesOnWires(all: ResourceParts): WireResources | undefined {
  const { settings, service, downloads } = all
  const { publicUrl } = settings
  if (publicUrl === undefined) return undefined
  return {
    isAbout: isOfResources,
    speakOf: (method, result) =>
      speakingOfStreams(method, result, settings.streamable, error => service.tell(error)),
    answer: (message, wire) => answerOnWire(all, message, wire, publicUrl),
    ended: (sessionId, owner) => downloads.endSession(sessionId, owner)
  }
}

/** [SEP-2532, WebSocket Transport] A wire gets a download URL, whatever the mode is over HTTP. */
async function answerOnWire(
  { parts, service, downloads }: ResourceParts,
  message: ResourceMessage,
  wire: WireClient,
  publicUrl: string
): Promise<WireMessage> {
  const { id } = message
  const { uri } = paramsOf(message)
  const { owner, signal, capabilities, sessionId, ask } = wire
  const work = new Waiting()
  const gone = (): void => work.gone()
  signal.addEventListener('abort', gone)
  try {
    if (parts.isClosing) throw closing()
    if (!isUri(uri)) throw badUri()
    const declaration = declarationOf(message, declarationIn(capabilities))
    if (declaration === undefined) throw notDeclared(uri)
    const requester: Requester = {
      owner,
      sessionId: undefined,
      revision: revisionIn(message),
      envelope: envelopeOf(message),
      maxStreamSize: maxStreamSizeOf(declaration)
    }
    const source = await service.openOnWire(work, requester, uri, ask)
    discardSource(source)
    const result = downloads.ticketFor(requester, source.facts, publicUrl, { sessionId, ask })
    return { jsonrpc: '2.0', id, result }
  } catch (error) {
    const {
      code,
      message: text,
      data
    } = service.errorOf(error) ?? internalError(isUri(uri) ? uri : undefined)
    return {
      jsonrpc: '2.0',
      id,
      error: { code, message: text, ...(data !== undefined && { data }) }
    }
  } finally {
    signal.removeEventListener('abort', gone)
  }
}
