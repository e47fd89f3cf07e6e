// `resources/stream` (SEP-2532): answered here, with bytes or a download URL.
import type { Answer, Context } from './route.js'

export function resourceRequest(context: Context): Answer | undefined {
  const { resources } = context.instance
  const wanted = resources?.requestIn(context.body)
  return wanted === undefined ? undefined : () => resources?.answer(context, wanted)
}
