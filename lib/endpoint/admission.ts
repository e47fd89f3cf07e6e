// The one rule of admission: any status but 2xx, or a JSON-RPC error, is a refusal.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { now } from '../protocol/clock.js'
import { EndpointError } from '../protocol/errors.js'
import { CLIENT_CAPABILITIES, envelopeIn, metaOf, PROTOCOL_VERSION } from '../protocol/envelope.js'
import { type Message, METHOD_NOT_FOUND, paramsOf } from '../protocol/json-rpc.js'
import { writtenMessages } from '../protocol/json-splice.js'
import { isJsonText } from '../protocol/media-types.js'
import { isStateless, parseRevision } from '../protocol/revisions.js'
import { FairStore } from '../streams/fair-store.js'
import { Deadline } from '../streams/timer.js'
import { hashOf, headerOf, headersWhere } from '../access/guards.js'
import { askEndpoint, type DebugLog, type Reply } from './endpoint-client.js'

/** Bytes that are read of the endpoint's answer to a message that has no response. */
export const LONGEST_REPLY = 64 * 1024

/** The error of an endpoint that refuses a message in spite of its status. */
export async function errorIn(response: IncomingMessage): Promise<EndpointError | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    if (!isJsonText(response.headers['content-type'])) return undefined
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      size += chunk.length
      if (size > LONGEST_REPLY) return undefined
    }
  } finally {
    response.destroy()
  }
  return errorInText(Buffer.concat(chunks).toString('utf8'))
}

export function errorInText(text: string): EndpointError | undefined {
  const errors = writtenMessages(text).map(({ message }) => EndpointError.in(message))
  return errors.find(error => error !== undefined)
}

/** Whether the endpoint admits a client. */
export type Admission =
  | { readonly kind: 'admitted'; readonly message?: Message | undefined }
  /** Refused by a status, which the caller is to pass on. */
  | { readonly kind: 'refusal'; readonly response: IncomingMessage }
  /** Refused by a JSON-RPC error, whatever the status. */
  | { readonly kind: 'error'; readonly error: EndpointError }

export function admissionIn(reply: Reply): Admission {
  if (reply.kind === 'refusal') return reply
  const error = EndpointError.in(reply.message)
  // An endpoint that does not know the method says nothing about the client.
  return error === undefined || error.code === METHOD_NOT_FOUND
    ? { kind: 'admitted', message: reply.message }
    : { kind: 'error', error }
}

/** A request whose client is to be admitted. */
interface Asking {
  readonly instance: { readonly debug: DebugLog }
  readonly req: IncomingMessage & { originalUrl?: string }
  readonly res: ServerResponse
  readonly owner: string
}

/** Whether the endpoint admits a client, if it answers the question. */
export type AskedAdmission =
  | Admission
  /** It does not answer. */
  | { readonly kind: 'none' }

/** Milliseconds that the endpoint may take to answer. */
const PATIENCE = 10_000
/** Bytes that its answer may have. */
const LONGEST_ANSWER = 1024 * 1024
/** Milliseconds for which an admission is kept. */
const KEPT_FOR = 5000
const MOST_CLIENTS = 10_000

const OF_ONE_REQUEST = new RegExp(
  '^(?:accept.*|content-.*|connection|date|mcp-(?:method|name|param-.*)|idempotency-key|' +
    'last-event-id|traceparent|tracestate|baggage|b3|x-b3-.*|x-request-id|x-correlation-id|' +
    'x-amzn-trace-id|x-cloud-trace-context|cf-ray)$',
  'i'
)

/** Which clients the endpoint has admitted: an admission may be used again for a few seconds. */
export class Admissions {
  readonly #admitted = new FairStore<{ readonly at: number }>({
    maxSize: MOST_CLIENTS,
    ttl: KEPT_FOR
  })

  /**
   * Whether the endpoint and its guards admit this client. No promise if an admission of the last
   * `believedFor` ms (5,000 at most) will do. The caller passes a refusal on.
   */
  of(
    context: Asking,
    believedFor: number,
    message?: Message
  ): AskedAdmission | Promise<AskedAdmission> {
    const key = keyOf(context)
    const { at = -Infinity } = this.#admitted.get(key) ?? {}
    return now() - at < believedFor ? { kind: 'admitted' } : this.#ask(key, context, message)
  }

  async #ask(key: string, context: Asking, message: Message | undefined): Promise<AskedAdmission> {
    const admission = await askAdmission(context, message)
    if (admission.kind === 'admitted') this.#admitted.set(key, context.owner, { at: now() })
    return admission
  }
}

/** A digest of all that a guard may know a client by. */
function keyOf({ req, owner }: Asking): string {
  const { rawHeaders, socket } = req
  const headers = headersWhere(rawHeaders, name => !OF_ONE_REQUEST.test(name))
  const { authorized } = socket as TLSSocket
  const certificate = authorized ? (socket as TLSSocket).getPeerCertificate().fingerprint256 : ''
  const url = req.originalUrl ?? req.url
  return hashOf(JSON.stringify([owner, url, socket.remoteAddress, certificate, headers]))
}

/** Asks the endpoint, whatever it has answered before. */
export async function askAdmission(
  { instance, req, res }: Asking,
  message: Message | undefined
): Promise<AskedAdmission> {
  const patience = new Deadline(PATIENCE)
  res.once('close', patience.abort)
  try {
    const question = {
      ...questionFor(req, message),
      signal: patience.signal,
      limit: LONGEST_ANSWER
    }
    return admissionIn(await askEndpoint(req, question))
  } catch (error) {
    instance.debug('the endpoint did not say who is admitted: %o', error)
    return { kind: 'none' }
  } finally {
    patience.clear()
    res.off('close', patience.abort)
  }
}

/** `ping`, or from 2026-07-28 on `server/discover`, with the client's envelope. */
function questionFor(
  req: IncomingMessage,
  message: Message | undefined
): { readonly method: string; readonly params?: Record<string, unknown> } {
  const revision = parseRevision(headerOf(req, 'mcp-protocol-version'))
  if (revision === undefined || !isStateless(revision)) return { method: 'ping' }
  if (message === undefined)
    return { method: 'server/discover', params: { _meta: envelopeFor(revision) } }
  const envelope = envelopeIn(metaOf(paramsOf(message)))
  return { method: 'server/discover', params: { _meta: envelope } }
}

/** The envelope that each request needs from 2026-07-28 on, for a client that has sent none. */
function envelopeFor(revision: string): Record<string, unknown> {
  return { [PROTOCOL_VERSION]: revision, [CLIENT_CAPABILITIES]: {} }
}
