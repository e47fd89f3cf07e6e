// What is noted of a request that the endpoint answers, and what is added to the answer.
import { watchOutcome } from '../endpoint/outcome.js'
import type { Context } from './route.js'

/**
 * Notes the outcome of a request, and which requests of the endpoint its messages answer or cancel.
 */
export function readAlong(context: Context): void {
  const { tasks, tokens } = context.instance
  watchOutcome(context)
  tokens?.watch(context)
  tokens?.noteAnswers(context)
  tasks?.noteAnswers(context)
}

/** Adds to the endpoint's answer what the middleware can do. */
export function negotiate(context: Context): void {
  const { tasks, tokens, resources } = context.instance
  tasks?.declare(context)
  tokens?.addHints(context)
  resources?.negotiate(context)
}
