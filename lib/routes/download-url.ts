// A download URL (SEP-2532): its names tell which.
import { UNKNOWN } from '../streams/directory.js'
import type { Answer, Context } from './route.js'

export function downloadUrl(context: Context): Answer | undefined {
  const { directory, resources } = context.instance
  const names = resources?.downloads.namesIn(context.req) ?? []
  const [name] = names
  if (resources === undefined || name === undefined) return undefined
  return async () => {
    // A page that may not read downloads learns nothing about them.
    const isLookedFor = names.length === 1 && !context.isForeign
    const found = isLookedFor ? await directory.find('ticket', name) : UNKNOWN
    return resources.downloads.answer(context, found)
  }
}
