// A call that is answered in the endpoint's place, over a response that is captured like its own.
import type { Answer, Context } from './route.js'

export function calls(context: Context): Answer | undefined {
  return context.instance.tokens?.answerFor(context)
}
