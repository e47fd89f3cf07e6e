// SEP-2532: `resources/stream`, and requests for download URLs.
import { refuseAndCount } from '../endpoint/refusals.js'
import { UNKNOWN } from '../streams/directory.js'
import type { Answer, Context } from './route.js'

export function resourceRequest(context: Context): Answer | undefined {
  const { resources } = context.instance
  const wanted = resources?.requestIn(context.body)
  if (wanted === undefined) return undefined
  // Before the endpoint is asked, and before any look-up.
  if (context.isForeign) return () => refuseAndCount(context, 403, 'foreign-origin')
  return () => resources?.answer(context, wanted)
}

/** A request for a download URL (SEP-2532), whose query names a ticket. */
export function downloadUrl(context: Context): Answer | undefined {
  const { directory, resources } = context.instance
  const names = resources?.downloads.namesIn(context.req) ?? []
  const [name] = names
  if (resources === undefined || name === undefined) return undefined
  return async () => {
    // A foreign page learns nothing about downloads, so nothing is looked up for it.
    const isLookedFor = names.length === 1 && !context.isForeign
    const found = isLookedFor ? await directory.find('ticket', name) : UNKNOWN
    return resources.downloads.answer(context, found)
  }
}
