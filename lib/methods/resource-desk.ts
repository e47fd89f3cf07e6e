// Between a request for a resource and its bytes: may it have them, what are they, and are they still on their way.
import type { IncomingMessage } from 'node:http'
import { StreamError } from '../core/errors.js'
import { isObject } from '../core/json-rpc.js'
import { FIRST_STATELESS_REVISION } from '../core/protocol-version.js'
import type { House } from '../http/house.js'
import { relayAnswer } from '../http/inject.js'
import { askEndpoint, EndpointError, type Reply } from './ask-endpoint.js'
import { deliver, type Progress } from './deliver.js'
import { withoutDownload } from './download-url.js'
import { notFound, notSupported, ofEndpoint, ResourceError, tooLarge } from './resource-errors.js'
import { discardResource, type Source, sourceOf } from './resource-source.js'
import { NOT_STREAMABLE, type OpenedResource, type ResourceContext, type ResourceSettings } from './resource-types.js'
import { ClientGone } from './send-bytes.js'
import type { Visit, Visitor } from './visit.js'

/** Bytes of the endpoint's verdict on who asks. */
const LONGEST_VERDICT = 1024 * 1024
/** Bytes of what a provider asks of the endpoint: half of the longest string that there is. */
const LONGEST_REPLY = 256 * 1024 * 1024
const METHOD_NOT_FOUND = -32601

/** Large pieces are faster; with many transfers at once the memory that they take counts more. */
const PIECE_SIZE = 256 * 1024
const SMALL_PIECE_SIZE = 64 * 1024
const FEW_TRANSFERS = 8

export class ResourceDesk {
  readonly settings: ResourceSettings
  readonly #house: House
  readonly #report: (error: Error) => void
  readonly #visits = new Set<Visit>()
  #onIdle: (() => void) | undefined

  constructor(settings: ResourceSettings, house: House, report: (error: Error) => void) {
    this.settings = settings
    this.#house = house
    this.#report = report
  }

  /**
   * Asks the endpoint for its verdict on who asks: with the same credentials, through everything in front of it. `false`: it has refused, and
   * its answer has been passed on.
   *
   * @throws {EndpointError} where it refuses by a JSON-RPC error.
   */
  async admits(visit: Visit, visitor: Visitor): Promise<boolean> {
    const method = isStateless(visitor) ? 'server/discover' : 'ping'
    const reply = await this.#ask(visit, visitor, method, undefined, LONGEST_VERDICT)
    if (reply.kind === 'refusal') {
      this.#house.debug('resource refused by the endpoint with %d', reply.response.statusCode)
      relayAnswer(reply.response, visit.res)
      return false
    }
    const error = EndpointError.in(reply.message)
    // Not to know this method says nothing of who asks.
    if (error !== undefined && error.code !== METHOD_NOT_FOUND) throw error
    return true
  }

  /**
   * Opens a resource for who asks.
   *
   * @throws {ResourceError} where there is none for it.
   */
  async open(visit: Visit, visitor: Visitor, uri: string): Promise<Source> {
    const { open, timeout } = this.settings
    const context: ResourceContext = {
      owner: visitor.owner === '' ? undefined : visitor.owner,
      sessionId: visitor.sessionId,
      headers: visit.req.headers,
      maxStreamSize: visitor.maxStreamSize,
      signal: visit.signal,
      askEndpoint: (method, params) => this.#resultOf(visit, visitor, method, params)
    }
    // Called in a promise: what it throws at once is no different from what it throws later.
    const opening = new Promise<OpenedResource>(resolve => resolve(open(uri, context)))
    const opened = await visit.wait(opening, timeout, discardResource)
    if (opened === undefined || opened === null) throw notFound(uri, visitor.revision)
    if (opened === NOT_STREAMABLE) throw notSupported({ uri, suggestion: 'Use resources/read for this resource' })
    const source = await sourceOf(uri, opened)
    if (source === undefined) throw notFound(uri, visitor.revision)
    const { maxStreamSize } = visitor
    const { size } = source.facts
    if (maxStreamSize !== undefined && size !== undefined && size > maxStreamSize) {
      discardSource(source)
      throw tooLarge(uri, size, maxStreamSize)
    }
    return source
  }

  /** Sends a source. */
  async send(visit: Visit, visitor: Visitor, source: Source, isDownload: boolean, progress: Progress): Promise<void> {
    // Somebody in front has answered meanwhile.
    if (visit.res.headersSent) return discardSource(source)
    if (visit.signal.aborted) {
      // While a file was looked at, which nothing interrupts.
      discardSource(source)
      throw visit.signal.reason
    }
    visit.isSending = true
    const delivery = {
      limit: visitor.maxStreamSize,
      timeout: this.settings.timeout,
      pieceSize: this.#visits.size > FEW_TRANSFERS ? SMALL_PIECE_SIZE : PIECE_SIZE,
      isDownload
    }
    await deliver(visit, source, delivery, progress)
  }

  /**
   * Does something for a request, and ends its response in the end, come what may. `answer` is told of what has gone wrong while
   * there is still an answer to give; what is under way already is broken off.
   */
  async serve(
    visit: Visit,
    work: () => Promise<void>,
    answer: (error: ResourceError | undefined) => void
  ): Promise<void> {
    this.#visits.add(visit)
    try {
      await work()
    } catch (error) {
      this.#failed(visit, error, answer)
    } finally {
      visit.end()
      this.#visits.delete(visit)
      if (this.#visits.size === 0) this.#onIdle?.()
    }
  }

  /** Lets what is under way come to its end, no longer than `patience` milliseconds, and breaks off the rest. */
  async close(patience: number): Promise<void> {
    if (this.#visits.size === 0) return
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, patience)
      this.#onIdle = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    for (const visit of [...this.#visits]) {
      visit.abort(new ClientGone())
      visit.res.destroy()
    }
  }

  tell(cause: unknown): void {
    this.#house.debug('resource failed: %O', cause)
    this.#report(new StreamError('resource-failed', { cause }))
  }

  #failed(visit: Visit, thrown: unknown, answer: (error: ResourceError | undefined) => void): void {
    const { res, signal } = visit
    // What was broken off fails in many ways, for one reason.
    const error: unknown = signal.aborted ? signal.reason : thrown
    const isAnswer = error instanceof ResourceError || error instanceof EndpointError
    if (error instanceof ClientGone) this.#house.debug('resource broken off: its client has gone')
    else if (!isAnswer) this.tell(error)
    if (res.headersSent) return void (visit.isSending && res.destroy())
    if (res.destroyed || error instanceof ClientGone) return void res.destroy()
    if (error instanceof EndpointError) answer(ofEndpoint(error))
    else answer(error instanceof ResourceError ? error : undefined)
  }

  async #resultOf(
    visit: Visit,
    visitor: Visitor,
    method: string,
    params: Record<string, unknown> | undefined
  ): Promise<Record<string, unknown>> {
    const reply = await this.#ask(visit, visitor, method, params, LONGEST_REPLY)
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
    visit: Visit,
    visitor: Visitor,
    method: string,
    params: Record<string, unknown> | undefined,
    limit: number
  ): Promise<Reply> {
    const { envelope, sessionId } = visitor
    const meta = isObject(params?.['_meta']) ? params['_meta'] : {}
    const question = {
      method,
      params: isStateless(visitor) ? { ...params, _meta: { ...envelope, ...meta } } : params,
      sessionId,
      signal: visit.signal,
      limit
    }
    return visit.wait(askEndpoint(asClient(visit.req, visitor), question), this.settings.timeout, late => {
      if (late.kind === 'refusal') late.response.destroy()
    })
  }
}

export function discardSource(source: Source): void {
  if (source.kind === 'bytes') source.discard()
}

function isStateless({ revision }: Visitor): boolean {
  return revision !== undefined && revision >= FIRST_STATELESS_REVISION
}

/**
 * The request as the client would have sent one to the endpoint itself: a download URL is fetched without what MCP wants in the head of
 * its messages.
 */
function asClient(req: IncomingMessage, visitor: Visitor): IncomingMessage {
  if (req.method === 'POST') return req
  const { originalUrl, url } = req as IncomingMessage & { originalUrl?: string }
  const rawHeaders = [...req.rawHeaders]
  const headers = { ...req.headers }
  if (visitor.revision !== undefined && headers['mcp-protocol-version'] === undefined) {
    rawHeaders.push('MCP-Protocol-Version', visitor.revision)
    headers['mcp-protocol-version'] = visitor.revision
  }
  if (isStateless(visitor)) headers['mcp-method'] = ''
  return Object.create(req, {
    originalUrl: { value: withoutDownload(originalUrl ?? url ?? '/') },
    rawHeaders: { value: rawHeaders },
    headers: { value: headers }
  }) as IncomingMessage
}
