// A client that comes back for a call that this process does not know: it was made before a
// restart, or at another instance.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { now } from '../protocol/clock.js'
import { faultMessage, STREAM_ERROR } from '../protocol/errors.js'
import { type EventId, formatToldId, isToldId, label } from '../protocol/event-id.js'
import { FairStore } from '../streams/fair-store.js'
import { errorResponse } from '../protocol/json-rpc.js'
import { encodeIdField, encodeMessage } from '../protocol/sse-writer.js'
import { headerOf, scopeOf } from '../access/guards.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { relayAnswer } from '../endpoint/endpoint-client.js'
import { answer, canAnswer, noContent } from '../endpoint/reply.js'
import { mayBeOthers, proceedAfresh } from './resume-at-endpoint.js'
import type { Admission } from '../endpoint/ask-endpoint.js'
import { verdictOf } from '../endpoint/admission.js'

/**
 * Milliseconds for which the endpoint is not asked again about one who was admitted: clients come
 * back for all their calls at once.
 */
const ADMITTED_FOR = 2000
/** How many are remembered. */
const MOST_ADMITTED = 1000

const EVENT_STREAM = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no'
}

/**
 * Answers for streams that are unknown, or another's: with an error for the request that the event
 * id names, because a stock client would wait for its response until it gives up otherwise. Nothing
 * is said of the stream; and the endpoint, which is asked first whether it knows the client, hears
 * of nothing but that.
 */
export class UnknownStreams {
  readonly #parts: InstanceParts
  readonly #admitted = new FairStore<{ readonly until: number }>({ maxSize: MOST_ADMITTED })

  constructor(parts: InstanceParts) {
    this.#parts = parts
  }

  async answer(
    req: IncomingMessage,
    res: ServerResponse,
    eventId: EventId,
    owner: string,
    proceed: () => void
  ): Promise<void> {
    if (mayBeOthers(req, eventId)) return proceed()
    const { requestId } = eventId
    if (isToldId(headerOf(req, 'last-event-id') ?? '')) return noContent(res)
    if (requestId === undefined)
      return proceedAfresh(this.#parts, req, proceed, 'not a stream of this client')
    const admission = await this.#admissionOf(req, res, owner)
    if (admission.kind === 'refusal') {
      this.#parts.debug('resuming refused by the endpoint with %d', admission.response.statusCode)
      return relayAnswer(admission.response, res)
    }
    if (!canAnswer(res)) return
    if (admission.kind === 'none')
      return proceedAfresh(this.#parts, req, proceed, 'the endpoint cannot be asked')
    if (admission.kind === 'error') {
      const { code, message, data } = admission.error
      return this.#tell(
        res,
        eventId,
        errorResponse(requestId, code, message, data),
        'as the endpoint refuses it'
      )
    }
    const fault = 'stream-unknown'
    this.#parts.count('refused', undefined, fault)
    this.#tell(
      res,
      eventId,
      errorResponse(requestId, STREAM_ERROR, faultMessage(fault), { reason: fault }),
      fault
    )
  }

  async #admissionOf(
    req: IncomingMessage,
    res: ServerResponse,
    owner: string
  ): Promise<Admission | { readonly kind: 'none' }> {
    const key = scopeOf(req, owner, headerOf(req, 'authorization'))
    if ((this.#admitted.get(key)?.until ?? 0) > now()) return { kind: 'admitted' }
    const admission = await verdictOf(this.#parts, req, res)
    if (admission.kind === 'admitted')
      this.#admitted.set(key, owner, { until: now() + ADMITTED_FOR })
    return admission
  }

  /**
   * One event under an id that says that it has been told: its client comes back with that once
   * more, and gets a 204.
   */
  #tell(
    res: ServerResponse,
    { streamId, sequence, requestId }: EventId,
    error: string,
    why: string
  ): void {
    const stream = { id: streamId, requestIds: [requestId as number] }
    this.#parts.debug(
      'stream %s is not known here, request %d told as an error: %s',
      label(stream),
      requestId,
      why
    )
    const told = [encodeIdField(formatToldId(stream, sequence)), encodeMessage(error)]
    answer(res, 200, EVENT_STREAM, Buffer.concat(told))
  }
}
