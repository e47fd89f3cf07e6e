// A download URL (SEP-2532): its names tell which.
import type { Answer, Context } from './route.js'

export function downloadUrl(context: Context): Answer | undefined {
  const { resources } = context.instance
  const names = resources?.downloadsIn(context.req) ?? []
  return names.length === 0 ? undefined : () => resources?.answerDownload(context, names)
}
