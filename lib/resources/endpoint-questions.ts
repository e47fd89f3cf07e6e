// Requests to the endpoint in a client's name: whether it admits the client, and what a provider
// asks by `askEndpoint`.
import type { IncomingMessage } from 'node:http'
import { EndpointError } from '../protocol/endpoint-error.js'
import { withEnvelope } from '../protocol/envelope.js'
import { isObject } from '../protocol/json-rpc.js'
import { withoutStream } from '../protocol/link-header.js'
import { isStateless } from '../protocol/revisions.js'
import { type Admission, admissionIn } from '../endpoint/admission.js'
import { askEndpoint, type Question, type Reply } from '../endpoint/endpoint-client.js'
import { withoutDownload } from './download-url.js'
import type { Requester, ResourceRequest } from './resource-request.js'

/** The most bytes of its answer to whether it admits a client. */
const LONGEST_ADMISSION = 1024 * 1024
/** The most bytes of its answer to a provider: half of the longest string that V8 can make. */
const LONGEST_REPLY = 256 * 1024 * 1024

/** Asks with the credentials of one request, through everything in front of the endpoint. */
export class EndpointQuestions {
  readonly #timeout: number | null

  /** @param timeout milliseconds for which it is awaited; `null`: for ever. */
  constructor(timeout: number | null) {
    this.#timeout = timeout
  }

  /** Whether it admits the requester. */
  async admissionOf(request: ResourceRequest, requester: Requester): Promise<Admission> {
    const method = isStateless(requester.revision) ? 'server/discover' : 'ping'
    return admissionIn(await this.#ask(request, requester, method, undefined, LONGEST_ADMISSION))
  }

  /** @throws if the endpoint refuses, or answers without a result. */
  async resultOf(
    request: ResourceRequest,
    requester: Requester,
    method: string,
    params: Record<string, unknown> | undefined
  ): Promise<Record<string, unknown>> {
    const reply = await this.#ask(request, requester, method, params, LONGEST_REPLY)
    if (reply.kind === 'refusal') {
      reply.response.destroy()
      throw new Error(`The endpoint answered ${method} with ${reply.response.statusCode}`)
    }
    const error = EndpointError.in(reply.message)
    if (error !== undefined) throw error
    if (!isObject(reply.message?.result)) throw new Error(`The endpoint did not answer ${method}`)
    return reply.message.result
  }

  #ask(
    request: ResourceRequest,
    requester: Requester,
    method: string,
    params: Record<string, unknown> | undefined,
    limit: number
  ): Promise<Reply> {
    const { envelope = {}, sessionId } = requester
    const question = {
      method,
      params: isStateless(requester.revision) ? withEnvelope(params, envelope) : params,
      sessionId,
      signal: request.signal,
      limit,
      ...(request.req.method !== 'POST' && asClient(request.req, requester))
    }
    return request.wait(askEndpoint(request.req, question), this.#timeout, late => {
      if (late.kind === 'refusal') late.response.destroy()
    })
  }
}

/**
 * A request for a download URL has no headers of MCP, and its parameter means nothing to the
 * endpoint: so revision and path are given here.
 */
function asClient(
  { originalUrl, url }: IncomingMessage & { originalUrl?: string },
  { revision }: Requester
): Pick<Question, 'path' | 'revision'> {
  return { path: withoutStream(withoutDownload(originalUrl ?? url ?? '/')), revision }
}
