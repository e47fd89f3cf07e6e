// What optional parts of the middleware take part in, each asked in its turn.
import type { Worker } from '../endpoint/feature.js'
import type { Answer, Context } from './route.js'

interface Hooks {
  readonly byHead: Answer
  readonly byMessage: Answer
  readonly worker: Worker
  readonly beforeEndpoint: Answer
}

/** What the first feature has that has something. */
function first<Hook extends keyof Hooks>(hook: Hook) {
  return (context: Context): Hooks[Hook] | undefined => {
    for (const feature of context.instance.features) {
      const found = feature[hook]?.(context)
      if (found !== undefined) return found as Hooks[Hook]
    }
    return undefined
  }
}

export const featureByHead = first('byHead')
export const featureByMessage = first('byMessage')
export const beforeEndpoint = first('beforeEndpoint')
/** What works on a request beside the endpoint; `undefined`: nothing does. */
export const workerFor = first('worker')
