// A message that the middleware has sent to the endpoint itself. Its outcome is noted, and its
// response passes untouched.
import { isLoopback, messageCarried } from '../endpoint/loopback.js'
import { watchOutcome } from '../endpoint/outcome.js'
import { readAhead } from '../endpoint/read-ahead.js'
import type { Answer, Context } from './route.js'

export function loopback(context: Context): Answer | undefined {
  const { instance, req } = context
  if (!isLoopback(req)) return undefined
  const known = (body: unknown): void => {
    context.learn(body)
    watchOutcome(context)
    instance.tokens?.noteAnswers(context)
    instance.tasks?.noteAnswers(context)
    context.next()
  }
  const carried = messageCarried(req)
  if (carried !== undefined) return () => known(carried)
  return () => readAhead(req, { ...context.bodyLimits, known })
}
