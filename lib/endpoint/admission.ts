// The endpoint's own word on a client, its token and its session, asked with a message that every
// endpoint can answer.
import type { IncomingMessage } from 'node:http'
import { isObject, type Message, paramsOf } from '../protocol/json-rpc.js'
import { FIRST_STATELESS_REVISION, parseRevision } from '../protocol/revisions.js'
import { CLIENT_CAPABILITIES } from '../protocol/streams-capability.js'
import { headerOf } from '../access/guards.js'
import { type Admission, admissionIn, askEndpoint } from './ask-endpoint.js'
import type { RequestContext } from './request-context.js'

/** Milliseconds for which the endpoint's word is awaited. */
const PATIENCE = 10_000
/** Bytes that it may have. */
const LONGEST_ANSWER = 1024 * 1024

/**
 * Asks the endpoint, and whatever guards it, whether it knows this client; `none`: it says nothing.
 * The message that the client has sent, if any, does not go there.
 */
export async function verdictOf(
  { instance, req, res }: RequestContext,
  message?: Message
): Promise<Admission | { readonly kind: 'none' }> {
  const patience = new AbortController()
  const giveUp = (): void => patience.abort()
  const timer = setTimeout(giveUp, PATIENCE)
  timer.unref()
  res.once('close', giveUp)
  try {
    const question = {
      ...questionFor(req, message),
      signal: patience.signal,
      limit: LONGEST_ANSWER
    }
    return admissionIn(await askEndpoint(req, question))
  } catch (error) {
    instance.debug('the endpoint gave no verdict: %o', error)
    return { kind: 'none' }
  } finally {
    clearTimeout(timer)
    res.off('close', giveUp)
  }
}

/**
 * `ping`, or from 2026-07-28 on `server/discover`, with what the client says of itself in each
 * request.
 */
function questionFor(
  req: IncomingMessage,
  message: Message | undefined
): { readonly method: string; readonly params?: Record<string, unknown> } {
  const revision = parseRevision(headerOf(req, 'mcp-protocol-version'))
  if (revision === undefined || revision < FIRST_STATELESS_REVISION) return { method: 'ping' }
  if (message === undefined)
    return { method: 'server/discover', params: { _meta: envelopeFor(revision) } }
  const meta = paramsOf(message)['_meta']
  const ofProtocol = Object.entries(isObject(meta) ? meta : {}).filter(([key]) =>
    key.startsWith('io.modelcontextprotocol/')
  )
  return { method: 'server/discover', params: { _meta: Object.fromEntries(ofProtocol) } }
}

/** What every request has to say from 2026-07-28 on, for a client that has sent none. */
function envelopeFor(revision: string): Record<string, unknown> {
  return { 'io.modelcontextprotocol/protocolVersion': revision, [CLIENT_CAPABILITIES]: {} }
}
