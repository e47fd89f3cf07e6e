// The body of a response as the blocks of an event stream, as they arrive.
import { dataOf, fieldOf } from '../protocol/sse-fields.js'
import { BlockSplitter } from '../protocol/sse-parser.js'

/** One block of an event stream. */
export interface Block {
  /** Its event id, where it has one. */
  readonly id: string | undefined
  /** Its data; `undefined` where it is no event but a comment or a bare `retry`. */
  readonly data: string | undefined
  /** Its event type is `message`, said or implied. */
  readonly isMessage: boolean
  /** Its reconnection time in milliseconds, where it has one. */
  readonly retry: string | undefined
  /** It has nothing but comments. */
  readonly isComment: boolean
}

/** Bytes that are read of one response: what is checked needs far less. */
const LONGEST_BODY = 4 * 1024 * 1024

/**
 * Reads blocks until the body ends, or the caller stops. Comments that are sent without a blank
 * line behind them, as this library's keep-alive is, are told to `onComment` as soon as they
 * arrive.
 */
export async function* blocksOf(response: Response, onComment?: () => void): AsyncGenerator<Block> {
  const splitter = new BlockSplitter()
  let size = 0
  let isAtLineStart = true
  for await (const chunk of response.body ?? []) {
    const bytes = chunk as Uint8Array
    size += bytes.length
    if (size > LONGEST_BODY) return
    if (isAtLineStart && bytes[0] === COLON) onComment?.()
    isAtLineStart = bytes[bytes.length - 1] === LF
    const blocks: Block[] = []
    splitter.push(bytes, (held, from, to, fields) => {
      const isEvent = fields.dataLines > 0
      blocks.push({
        id: fields.hasId ? fieldOf(held, from, to, 'id') : undefined,
        data: isEvent ? dataOf(held, from, to, fields) : undefined,
        isMessage: fields.isMessage,
        retry: fieldOf(held, from, to, 'retry'),
        isComment: !isEvent && held[from] === COLON
      })
    })
    yield* blocks
  }
}

const COLON = 58
const LF = 10
