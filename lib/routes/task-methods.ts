// `tasks/get`, `tasks/update` and `tasks/cancel` of the tasks extension: answered here, where the
// tasks are ours.
import type { Answer, Context } from './route.js'

export function taskMethod(context: Context): Answer | undefined {
  return context.instance.tasks?.answerAbout(context)
}
