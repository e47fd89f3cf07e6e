// Calls that may become tasks, calls that are collected with resume tokens, and requests that are
// answered in the endpoint's place.
import { type Worker, workOn } from './endpoint.js'
import type { Answer, Context } from './route.js'

export function calls(context: Context): Answer | undefined {
  const worker = workerFor(context)
  return worker && (() => workOn(context, worker))
}

/** What works on a request beside the endpoint; `undefined`: nothing does. */
function workerFor(context: Context): Worker | undefined {
  const { tasks, tokens } = context.instance
  const task = tasks?.beginFor(context)
  if (task !== undefined) return { kind: 'task', begin: task }
  const answer = tasks?.answerFor(context) ?? tokens?.answerFor(context)
  if (answer !== undefined) return { kind: 'answer', answer }
  const token = tokens?.beginFor(context)
  return token && { kind: 'token', begin: token }
}
