// What is read along where the endpoint answers, and what is added to its answer.
import { watchOutcome } from '../endpoint/outcome.js'
import type { Context } from './route.js'

/**
 * Acts on what a request answers, and on what it comes to. `isLate`: its messages were not there
 * yet when the endpoint began.
 */
export function readAlong(context: Context, isLate = false): void {
  const { tasks, tokens } = context.instance
  watchOutcome(context, isLate)
  tokens?.watch(context)
  tokens?.noteAnswers(context)
  tasks?.noteAnswers(context)
}

/** Adds to what the endpoint declares. */
export function negotiate(context: Context): void {
  const { tasks, tokens, resources } = context.instance
  tasks?.declare(context)
  tokens?.addHints(context)
  resources?.negotiate(context)
}
