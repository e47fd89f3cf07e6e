// A call that the endpoint does not simply answer: it becomes a task, is collected with resume
// tokens, or is answered in the endpoint's place.
import { type Worker, workOn } from './endpoint.js'
import type { Answer, Context } from './route.js'

export function calls(context: Context): Answer | undefined {
  const worker = workerFor(context)
  return worker && (() => workOn(context, worker))
}

/** `undefined`: the endpoint alone. */
export function workerFor(context: Context): Worker | undefined {
  const { tasks, tokens } = context.instance
  const task = tasks?.beginFor(context)
  if (task !== undefined) return { kind: 'task', begin: task }
  const answer = tasks?.answerFor(context) ?? tokens?.answerFor(context)
  if (answer !== undefined) return { kind: 'answer', answer }
  const token = tokens?.beginFor(context)
  return token && { kind: 'token', begin: token }
}
