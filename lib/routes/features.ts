// What optional parts of the middleware answer, each in its turn.
import type { Answer, Context } from './route.js'

export function featureByHead(context: Context): Answer | undefined {
  for (const feature of context.instance.features) {
    const answer = feature.byHead?.(context)
    if (answer !== undefined) return answer
  }
  return undefined
}

export function featureByMessage(context: Context): Answer | undefined {
  for (const feature of context.instance.features) {
    const answer = feature.byMessage?.(context)
    if (answer !== undefined) return answer
  }
  return undefined
}
