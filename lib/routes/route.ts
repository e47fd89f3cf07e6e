// What a route is, and how the first route that has an answer is found.
import type {
  Answer,
  CallKeys,
  Feature,
  LastingSessions,
  WaitingStreams
} from '../endpoint/feature.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import type { OtherInstances, OtherInstancesHost } from '../endpoint/other-instances.js'
import { canAnswer } from '../http/reply.js'
import type { RequestContext } from '../endpoint/request-context.js'
import type { SlowAnswers } from '../endpoint/call.js'
import type { Parts } from '../endpoint/triggers.js'
import { replaceHeader } from '../http/request-body.js'

/** What routes need of the middleware. */
export interface RoutesInstance extends InstanceParts {
  /**
   * Optional parts, in the order in which they are asked. One that joins later is not asked about
   * requests.
   */
  readonly features: Feature[]
  readonly keys: CallKeys
  /** `undefined`: no stream stops for its client. */
  readonly waitingStreams: WaitingStreams | undefined
  readonly slow: SlowAnswers
  /** Sessions that outlive their process; `undefined`: off. */
  readonly surviving: LastingSessions | undefined
  /** `undefined`: there is no backplane. */
  readonly others: OtherInstances<Context> | undefined
  readonly routes: Routes
}

export type Context = RequestContext<RoutesInstance>

/** What the value of option `backplane` carries (`partOf`). */
export type OtherInstancesCode = (
  instance: RoutesInstance,
  host: OtherInstancesHost<Context>
) => OtherInstances<Context>

export type { Answer } from '../endpoint/feature.js'

/** `given`: it has answered. `undefined`: the request is for one of the next routes. */
export type Route = (context: Context) => Answer | 'given' | undefined | Promise<Answer | undefined>

/** A route is asked about requests that are special to it. */
export interface Row {
  readonly parts: Parts
  readonly ask: Route
}

/** A feature is asked about requests that are special to it. */
export interface FeatureRow {
  readonly parts: Parts
  readonly feature: Feature
}

/** Hooks by which features are asked, each in its turn. */
export type Asked = 'byHead' | 'byMessage' | 'beforeEndpoint' | 'namedBy' | 'worker' | 'rewrite'

/** Who is asked about a request, in which order. */
export interface Routes {
  readonly byHead: readonly Row[]
  /** About a POST, once its body has been read. */
  readonly byMessages: readonly Row[]
  /** What a message may name something of. */
  readonly named: readonly FeatureRow[]
  /** What may work on a POST beside the endpoint. */
  readonly workers: readonly FeatureRow[]
  /** What may change the endpoint's answer. */
  readonly rewriters: readonly FeatureRow[]
}

/** Gives the answer of the first route that has one. */
export function walk(context: Context, rows: readonly Row[], from = 0): void {
  for (let i = from; i < rows.length; i++) {
    const { parts, ask } = rows[i] as Row
    const answer = (parts & context.parts) === 0 ? undefined : ask(context)
    if (answer === undefined) continue
    if (answer === 'given') return
    // A route that has to wait: the next ones are asked if it has none.
    const work =
      answer instanceof Promise
        ? answer.then(found => (found === undefined ? walk(context, rows, i + 1) : found()))
        : answer()
    if (work instanceof Promise) handleFailure(context, work)
    return
  }
}

/** Handles the failure of an asynchronous answer, so that no request is left without one. */
export function handleFailure(
  { instance, res, next }: Pick<Context, 'instance' | 'res' | 'next'>,
  work: Promise<unknown>
): void {
  work.catch((error: unknown) => {
    if (canAnswer(res)) return next(error)
    // The application's error handler would try to write a second head.
    instance.debug('an answer broke off: %O', error)
    res.destroy()
  })
}

/** Passes on a request that is not MCP: there may be more behind the middleware. */
export function passNotMcp({ instance, method, next }: RequestContext): void {
  instance.debug('%s passed on: not MCP', method)
  next()
}

/** Removes a cursor that the endpoint does not know from a GET, for the next routes. */
export function forgetCursor(context: Context, why: string): undefined {
  const { instance, req } = context
  instance.debug('Last-Event-ID not resumed, passed on as a plain GET: %s', why)
  replaceHeader(req, 'last-event-id', undefined)
  context.lastEventId = undefined
  return undefined
}
