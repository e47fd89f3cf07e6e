// A call that is answered in the endpoint's place, over a response that is captured like its own:
// by a task, or a resume token.
import type { Answer, Context } from './route.js'

export function calls(context: Context): Answer | undefined {
  const { tasks, tokens } = context.instance
  return tasks?.answerFor(context) ?? tokens?.answerFor(context)
}
