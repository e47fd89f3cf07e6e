// The head of a captured response on its way to the socket: the endpoint's, or one of ours.
import type { IncomingMessage, OutgoingHttpHeader, ServerResponse } from 'node:http'
import type { CapturedWireHost } from './captured-wire-host.js'
import type { ResponsePipeline } from './response-pipeline.js'
import { maskResponse } from './response-view.js'
import { warnOfThrow } from './warnings.js'

export abstract class WireHead {
  protected readonly req: IncomingMessage
  protected readonly pipeline: ResponsePipeline
  protected readonly host: CapturedWireHost
  /** We are writing: `headersSent` then tells the state of the wire, for those in front of us. */
  #isWriting = false

  constructor(req: IncomingMessage, pipeline: ResponsePipeline, host: CapturedWireHost) {
    this.req = req
    this.pipeline = pipeline
    this.host = host
  }

  protected get res(): ServerResponse {
    return this.pipeline.res
  }

  get isWriting(): boolean {
    return this.#isWriting
  }

  abstract destroy(): void

  /**
   * Does something to the wire. If middleware in front of us throws at that, the connection is
   * destroyed: in a timer, nobody could catch it.
   */
  protected attempt<T>(work: () => T): T | undefined {
    this.#isWriting = true
    try {
      return work()
    } catch (error) {
      warnOfThrow(error)
      this.destroy()
      return undefined
    } finally {
      this.#isWriting = false
    }
  }

  /** Sends the head as the endpoint wanted it, with what `setHeaders` sets. */
  sendHead(setHeaders: () => void): void {
    const { head, next } = this.host
    head.send(next, setHeaders)
  }

  /** Sends a head of ours before the endpoint has given one. */
  sendEarlyHead(contentType: string | undefined, setHeaders: () => void, status?: number): void {
    const { head, next } = this.host
    head.sendEarly(this.req, next, () => this.#setHeaders(contentType, setHeaders), status)
  }

  /**
   * Sends a head of ours in the place of the one that the endpoint has given, of which nothing
   * leaves.
   */
  replaceHead(contentType: string | undefined, setHeaders: () => void, status?: number): void {
    const { head, next } = this.host
    head.replace(next, () => this.#setHeaders(contentType, setHeaders), status)
    // The endpoint may have ended its response, while the wire goes on.
    maskResponse(this.res)
  }

  #setHeaders(contentType: string | undefined, setHeaders: () => void): void {
    if (contentType !== undefined) this.setHeader('Content-Type', contentType)
    setHeaders()
  }

  setHeader(name: string, value: OutgoingHttpHeader): void {
    this.host.next.setHeader(name, value)
  }
}
