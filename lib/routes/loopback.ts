// A request that the middleware has sent to the endpoint itself. The outcome of its message is
// noted, and its response passes untouched.
import { isLoopback, takeCarried } from '../endpoint/loopback.js'
import { watchOutcome } from '../endpoint/outcome.js'
import { readAhead } from '../endpoint/read-ahead.js'
import type { KnownBody } from '../endpoint/request-body.js'
import type { Answer, Context } from './route.js'

export function loopback(context: Context): Answer | undefined {
  const { instance, req } = context
  if (!isLoopback(req)) return undefined
  const known = (body: KnownBody): void => {
    context.learn(body)
    watchOutcome(context)
    instance.tokens?.noteAnswers(context)
    instance.tasks?.noteAnswers(context)
    context.next()
  }
  const body = takeCarried(req)
  if (body !== undefined || req.method === 'GET') return () => known({ body })
  return () => readAhead(req, { ...context.bodyLimits, known })
}
