// Who works on what a POST asks for: the endpoint, as a rule.
import type { BeginCall } from '../calls/resume-tokens.js'
import type { EndpointWork } from '../calls/tasks/task-calls.js'
import type { Answer, Context } from './route.js'

export type Worker =
  /** The endpoint, on a call that may become a task. */
  | { readonly kind: 'task'; readonly begin: (work: EndpointWork) => unknown }
  /** The endpoint, on a call that its client collects with resume tokens; or what comes of one. */
  | { readonly kind: 'token'; readonly begin: BeginCall }
  /** The endpoint, or what answers in its place, over a response that is captured like its own. */
  | { readonly kind: 'endpoint'; readonly inItsPlace: Answer | undefined }

export function workerFor(context: Context): Worker {
  const { tasks, tokens } = context.instance
  const task = tasks?.beginFor(context)
  if (task !== undefined) return { kind: 'task', begin: task }
  const inItsPlace = tasks?.answerFor(context) ?? tokens?.answerFor(context)
  const token = inItsPlace === undefined ? tokens?.beginFor(context) : undefined
  return token === undefined ? { kind: 'endpoint', inItsPlace } : { kind: 'token', begin: token }
}
