// A request for a download URL (SEP-2532), whose query names a ticket.
import { UNKNOWN } from '../streams/directory.js'
import type { Answer, Context } from './route.js'

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
