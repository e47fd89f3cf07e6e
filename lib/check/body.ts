// Reads the body of a response, as text or as blocks of an event stream, up to a limit.
import { dataOf, fieldOf } from '../protocol/sse-fields.js'
import { BlockSplitter } from '../protocol/sse-parser.js'
import { isEventStreamType } from '../protocol/media-types.js'
import { Unusable } from './unusable.js'

export interface Block {
  readonly id: string | undefined
  /** Its data; `undefined` if it is a comment or a bare `retry`, and so not an event. */
  readonly data: string | undefined
  /** Whether its event type is `message`, explicitly or by default. */
  readonly isMessage: boolean
}

/** The most bytes that are read of one response: a check needs far less. */
const LONGEST_BODY = 4 * 1024 * 1024

/** Characters of the body of an error that are looked at. */
const LONGEST_START = 65_536

export const isEventStream = ({ headers }: Response): boolean =>
  isEventStreamType(headers.get('content-type'))

/** Reads blocks until the body ends, or the caller stops. */
export async function* blocksOf(response: Response): AsyncGenerator<Block> {
  const splitter = new BlockSplitter()
  for await (const bytes of piecesOf(response)) {
    const blocks: Block[] = []
    splitter.push(bytes, (held, from, to, fields) => {
      blocks.push({
        id: fields.hasId ? fieldOf(held, from, to, 'id') : undefined,
        data: fields.dataLines > 0 ? dataOf(held, from, to, fields) : undefined,
        isMessage: fields.isMessage
      })
    })
    yield* blocks
  }
}

/** Reads a whole body. */
export async function textOf(response: Response): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const bytes of piecesOf(response)) text += decoder.decode(bytes, { stream: true })
  return text + decoder.decode()
}

/** Reads the beginning of a body, as far as it comes in time: of an error, more says no more. */
export async function startOf(response: Response): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const bytes of piecesOf(response)) {
      text += decoder.decode(bytes, { stream: true })
      if (text.length > LONGEST_START) break
    }
  } catch {
    // What has come is enough.
  }
  return text
}

/** Cancels a body that is not read. */
export async function discard(response: Response): Promise<void> {
  await response.body?.cancel().catch(() => undefined)
}

async function* piecesOf({ body }: Response): AsyncGenerator<Uint8Array> {
  let size = 0
  for await (const piece of body ?? []) {
    const bytes = piece as Uint8Array
    size += bytes.length
    if (size > LONGEST_BODY) throw new Unusable('it sends more than 4 MiB in an answer')
    yield bytes
  }
}
