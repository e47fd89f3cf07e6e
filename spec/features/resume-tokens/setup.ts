// Long calls with resume tokens: their world, and what their client asks and sees.

import type { McpStreamsOptions } from '../../../lib/index.js'
import { post, tunable, type Call, type Tunable, type Word } from '../../helpers/talk/client.js'
import { upTo, type Wire } from '../../helpers/talk/index.js'
import type { Json } from '../../helpers/open-stream.js'

/** Soon enough for a spec that waits for it, and late enough for an answer that comes at once. */
export const SOON = 40
/** Longer than any spec takes. */
export const PATIENT = 60_000
export const TEXT = { content: [{ type: 'text', text: 'the report' }] }

/** A world whose calls are answered with a token after `SOON`. */
export const tokens = (
  resumeTokens: McpStreamsOptions['resumeTokens'] = {},
  options: McpStreamsOptions = {}
) => ({
  options: { ...options, resumeTokens: resumeTokens && { after: SOON, ...resumeTokens } }
})

/** Asks for a token, or with one, and reads the whole answer. */
export const report: Tunable<Call> = tunable('report', async (talk, options) => {
  const wire = (await post({ token: null, ...options })(talk)) as Wire
  await wire.response.ended
})

/** Asks for nothing but the result. */
export const plain = (options: Call = {}): Word => report({ token: undefined, ...options })

/** What a client sees that is given the first n tokens, each in JSON. */
export const given = (n: number): string[] => upTo(n).flatMap(one => ['json', `token ${one}`])

/** The token of an answer in the meantime. */
export function tokenOf(answer: Json): string {
  const token = answer.result?._meta?.nextResumeToken
  if (typeof token !== 'string') throw new Error(`no token in ${JSON.stringify(answer)}`)
  return token
}
