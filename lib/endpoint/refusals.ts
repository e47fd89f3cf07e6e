// Refusals of requests about streams.
import type { StreamFault } from '../protocol/errors.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import { type Denial, streamLabelIn } from './authorize.js'
import { refuse } from '../http/reply.js'
import type { RequestContext } from './request-context.js'

interface Details {
  readonly headers?: { readonly [name: string]: string }
  /** For operators alone. */
  readonly why?: Denial | undefined
  readonly stream?: Stream | Record | undefined
}

export function refuseUrl(
  { instance, method, req, res }: RequestContext,
  status: number,
  fault: StreamFault,
  { headers, why }: Details = {}
): void {
  instance.debug(
    '%s of stream %s refused with %d: %s%s',
    method,
    () => streamLabelIn(req) ?? '?',
    status,
    fault,
    why === undefined ? '' : `, ${why}`
  )
  refuse(res, status, fault, headers)
}

/** The same for a stream that is not the client's, or is gone, which operators want to count. */
export function refuseAndCount(
  context: RequestContext,
  status: number,
  fault: StreamFault,
  details: Details = {}
): void {
  context.instance.count('refused', details.stream, fault)
  refuseUrl(context, status, fault, details)
}

/** The line for a request about what another instance has, or had. */
export function debugElsewhere(
  { instance, method, req }: RequestContext,
  outcome: string,
  ...args: unknown[]
): void {
  const ofStream = (): string => (streamLabelIn(req) === undefined ? '' : ' of stream ')
  const name = (): unknown => streamLabelIn(req) ?? ''
  instance.debug(`%s%s%s: other instance, ${outcome}`, method, ofStream, name, ...args)
}
