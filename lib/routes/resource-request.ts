// `resources/stream` (SEP-2532): answered here, with bytes or with a download URL.
import { refuseAndCount } from '../endpoint/refusals.js'
import type { Answer, Context } from './route.js'

export function resourceRequest(context: Context): Answer | undefined {
  const { resources } = context.instance
  const wanted = resources?.requestIn(context.body)
  if (wanted === undefined) return undefined
  // Before the endpoint is asked, and before any look-up.
  if (context.isForeign) return () => refuseAndCount(context, 403, 'foreign-origin')
  return () => resources?.answer(context, wanted)
}
