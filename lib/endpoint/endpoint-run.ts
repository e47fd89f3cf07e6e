// One request of a client on its way through the endpoint, whatever the client gets meanwhile.
import type { Capture, ResponseCaptureHost, ResponseHead } from '../http/capture-types.js'
import { HandlerContext, isInContext, runInContext } from '../http/handler-context.js'
import type { RequestContext } from './request-context.js'
import { ResponseCapture } from '../http/response-capture.js'
import { applyPreference } from './stream-headers.js'

export abstract class EndpointRun implements ResponseCaptureHost {
  readonly request: RequestContext
  protected readonly handler: HandlerContext
  readonly response: ResponseCapture

  constructor(request: RequestContext) {
    const { instance, req, res, keyed } = request
    this.request = request
    this.handler = new HandlerContext(instance, instance.newId(), instance.links?.for(request))
    // Before the capture, which hides the client's `close` from listeners that are added later.
    keyed?.join(res, () => undefined)
    this.response = new ResponseCapture(req, res, this)
    if (keyed === undefined) return
    // A client may ask for the response again, so its close is held from now on.
    applyPreference(request, res)
    this.response.keep()
  }

  /** Of its stream, if its response becomes one. */
  get id(): string {
    return this.handler.id
  }

  /** @param ours answers in the endpoint's place. Default: the endpoint answers. */
  protected call(ours: () => unknown = this.request.next): void {
    runInContext(this.handler, ours)
    this.request.release()
  }

  /** The request is answered otherwise: the endpoint does not get it. */
  withhold(): void {
    this.request.release()
  }

  // ResponseCaptureHost

  abstract take(head: ResponseHead): Capture | undefined
  abstract brokenOff(): void
  abstract goesOnAlone(): void

  isInsideHandler(): boolean {
    return isInContext(this.handler)
  }

  runInside<T>(work: () => T): T {
    return runInContext(this.handler, work)
  }
}
