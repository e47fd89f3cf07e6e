// What a route is, and how the first route that has an answer is found.
import type { Answer, CallKeys, Feature, LastingSessions, Turns } from '../endpoint/feature.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import type { OtherInstances, OtherInstancesHost } from '../endpoint/other-instances.js'
import { canAnswer } from '../http/reply.js'
import type { RequestContext } from '../endpoint/request-context.js'
import type { SlowAnswers } from '../endpoint/call.js'
import { replaceHeader } from '../http/request-body.js'

/** What routes need of the middleware. */
export interface RoutesInstance extends InstanceParts {
  /** Optional parts, in the order in which they are asked. */
  readonly features: readonly Feature[]
  /** `undefined`: no client can ask for a call again. */
  readonly keys: CallKeys | undefined
  /** `undefined`: no stream stops for its client. */
  readonly turns: Turns | undefined
  /** `undefined`: clients just wait for a slow endpoint. */
  readonly slow: SlowAnswers | undefined
  /** Sessions that outlive their process; `undefined`: off. */
  readonly surviving: LastingSessions | undefined
  /** `undefined`: there is no backplane. */
  readonly others: OtherInstances<Context> | undefined
}

export type Context = RequestContext<RoutesInstance>

/** What the value of option `backplane` carries (`partOf`). */
export type OtherInstancesCode = (
  instance: RoutesInstance,
  host: OtherInstancesHost
) => OtherInstances<Context>

export type { Answer } from '../endpoint/feature.js'

/** `undefined`: the request is for one of the next routes. */
export type Route = (context: Context) => Answer | undefined | Promise<Answer | undefined>

export function walk(context: Context, routes: readonly Route[]): void {
  const answer = firstAnswer(context, routes)
  settle(context, isPromise(answer) ? answer.then(give => give?.()) : answer?.())
}

/** Handles the failure of an asynchronous answer, so that no request is left without one. */
export function settle(
  { instance, res, next }: Pick<Context, 'instance' | 'res' | 'next'>,
  work: unknown
): void {
  if (!isPromise(work)) return
  work.catch((error: unknown) => {
    if (canAnswer(res)) return next(error)
    // The application's error handler would try to write a second head.
    instance.debug('an answer broke off: %O', error)
    res.destroy()
  })
}

/** The answer of the first route that has one; a promise only if a route has to wait. */
function firstAnswer(
  context: Context,
  routes: readonly Route[],
  from = 0
): Answer | undefined | Promise<Answer | undefined> {
  for (let i = from; i < routes.length; i++) {
    const answer = (routes[i] as Route)(context)
    if (answer === undefined) continue
    if (!isPromise(answer)) return answer
    return answer.then(found => found ?? firstAnswer(context, routes, i + 1))
  }
  return undefined
}

function isPromise<T>(value: T): value is T & Promise<Awaited<T>> {
  return value instanceof Promise
}

/** Passes on a request that is not MCP: there may be more behind the middleware. */
export function passNotMcp({ instance, method, next }: RequestContext): void {
  instance.debug('%s passed on: not MCP', method)
  next()
}

/** Removes a cursor that the endpoint does not know from a GET, for the next routes. */
export function forgetCursor(context: Context, why: string): Answer | undefined {
  const { instance, req } = context
  instance.debug('Last-Event-ID not resumed, passed on as a plain GET: %s', why)
  replaceHeader(req, 'last-event-id', undefined)
  return context.hasMcpHeaders ? undefined : () => context.next()
}
