// Long calls with resume tokens: their world, and what their client asks and sees.

import type { McpStreamsOptions } from '../../../lib/index.js'
import { post, tunable, type Call, type Word } from '../../helpers/talk/client.js'
import { upTo, type Talk, type Wire } from '../../helpers/talk/index.js'
import type { Json } from '../../helpers/open-stream.js'

/** Soon enough for a spec that waits for it, and late enough for an answer that comes at once. */
export const SOON = 40
/** Longer than any spec takes. */
export const PATIENT = 60_000
export const TEXT = { content: [{ type: 'text', text: 'the report' }] }

/** A world whose calls are answered with a token after `SOON`: `token 1` is the first one given. */
export const tokens = (
  resumeTokens: McpStreamsOptions['resumeTokens'] = {},
  options: McpStreamsOptions = {}
) => ({
  options: { ...options, resumeTokens: resumeTokens && { after: SOON, ...resumeTokens } },
  word(message: Json, talk: Talk): string | undefined {
    const token = tokenIn(message)
    if (token === undefined) return undefined
    return `token ${tokensOf(talk).indexOf(token) + 1}${message.id === 1 ? '' : ` of ${message.id}`}`
  }
})

export interface TokenCall extends Call {
  /** The nth that the client has been given, or any text; `null` asks for one. */
  token?: unknown
  /** How long it waits for its result. */
  wait?: unknown
}

/** Calls the tool, and asks for a token, or with one. */
export const postWithToken = tunable<TokenCall>('postWithToken', (talk, options) => {
  const { token, wait, meta, ...more } = { token: null, ...options }
  const said = {
    ...(token !== undefined && {
      resumeToken: typeof token === 'number' ? tokensOf(talk)[token - 1] : token
    }),
    ...(wait !== undefined && { 'express-mcp-streams/wait': wait })
  }
  const isSaid = meta !== undefined || Object.keys(said).length > 0
  return post({ ...more, ...(isSaid && { meta: { ...meta, ...said } }) })(talk)
})

/** The same, and reads the whole answer. */
export const report = tunable<TokenCall>('report', async (talk, options) => {
  const wire = (await postWithToken(options)(talk)) as Wire
  await wire.response.ended
})

/** Asks for nothing but the result. */
export const plain = (options: TokenCall = {}): Word => report({ token: undefined, ...options })

/** The tokens that the client has been given, the first first. */
export const tokensOf = (talk: Talk): string[] => [
  ...new Set(talk.sees().flatMap(message => tokenIn(message) ?? []))
]

const tokenIn = (message: Json): string | undefined => message?.result?._meta?.nextResumeToken

/** What a client sees that is given the first n tokens, each in JSON. */
export const given = (n: number): string[] => upTo(n).flatMap(one => ['json', `token ${one}`])

/** The token of an answer in the meantime. */
export function tokenOf(answer: Json): string {
  const token = tokenIn(answer)
  if (typeof token !== 'string') throw new Error(`no token in ${JSON.stringify(answer)}`)
  return token
}
