// Requests about tasks, such as `tasks/get`: answered here if the option `tasks` is set and the
// endpoint has no tasks of its own. `tasks/result` is answered in `calls.ts`.
import type { Answer, Context } from './route.js'

export function taskMethod(context: Context): Answer | undefined {
  return context.instance.tasks?.answerAbout(context)
}
