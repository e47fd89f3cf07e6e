// SSE bytes in, blocks out: fields by eventsource-parser, and what it does not tell (ids without
// data) besides.

import { createParser } from 'eventsource-parser'
import { StringDecoder } from 'node:string_decoder'

/**
 * The text between two blank lines, parsed. A field that is not there is undefined; `data: ` is ''.
 */
export interface Block {
  id: string | undefined
  event: string | undefined
  data: string | undefined
  retry: number | undefined
  comments: string[]
  /** The block as it stood on the wire, its blank line included. */
  raw: string
}

/** What an MCP client reads: unnamed or named `message`, with data that is not empty. */
export function isMessage({ event, data }: Block): boolean {
  return data !== undefined && data !== '' && (event === undefined || event === 'message')
}

/**
 * Cuts bytes into blocks at blank lines (LF, CRLF or CR); the blocks' `raw` in a row is the text
 * again.
 */
export class BlockSplitter {
  readonly #onBlock: (block: Block) => void
  readonly #decoder = new StringDecoder('utf8')
  /**
   * The block that is not complete yet, in pieces: joining a long one for each chunk would cost its
   * square.
   */
  #pieces: string[] = []
  #lineLength = 0
  #hasLines = false
  /** A CR at a chunk's end: alone it ends a line, but an LF may follow. */
  #carry = ''

  constructor(onBlock: (block: Block) => void) {
    this.#onBlock = onBlock
  }

  feed(chunk: Buffer): void {
    let text = this.#carry + this.#decoder.write(chunk)
    this.#carry = text.endsWith('\r') ? '\r' : ''
    if (this.#carry) text = text.slice(0, -1)
    let start = 0
    let line = 0
    for (const { at, length } of lineEndings(text)) {
      const blank = this.#lineLength + at - line === 0
      line = at + length
      this.#lineLength = 0
      if (!blank) this.#hasLines = true
      else if (this.#hasLines) {
        this.#hasLines = false
        this.#onBlock(parseBlock(this.#pieces.splice(0).join('') + text.slice(start, line)))
        start = line
      }
    }
    this.#lineLength += text.length - line
    if (start < text.length) this.#pieces.push(text.slice(start))
  }
}

/**
 * LF, CRLF or CR, in order. By `indexOf`, because specs read events of hundreds of kilobytes
 * thousands of times.
 */
function* lineEndings(text: string): Generator<{ at: number; length: number }> {
  let lf = text.indexOf('\n')
  let cr = text.indexOf('\r')
  while (lf !== -1 || cr !== -1) {
    const at = cr === -1 || (lf !== -1 && lf < cr) ? lf : cr
    const length = at === cr && lf === at + 1 ? 2 : 1
    yield { at, length }
    if (lf !== -1 && lf < at + length) lf = text.indexOf('\n', at + length)
    if (cr === at) cr = text.indexOf('\r', at + length)
  }
}

function parseBlock(raw: string): Block {
  const block: Block = {
    id: undefined,
    event: undefined,
    data: undefined,
    retry: undefined,
    comments: [],
    raw
  }
  const parser = createParser({
    onEvent: ({ id, event, data }) => Object.assign(block, { id, event, data }),
    onRetry: retry => (block.retry = retry),
    onComment: comment => block.comments.push(comment)
  })
  // The parser would wait behind a CR for the LF that might follow.
  parser.feed(raw.includes('\r') ? raw.replaceAll(/\r\n?/g, '\n') : raw)
  if (block.data === undefined) {
    // The parser forgets the id and the name of a block without data, and so it should: they
    // dispatch nothing. But the id does move an EventSource's cursor.
    block.id = /^id(?:: ?(.*))?$/m.exec(raw)?.slice(1)[0] ?? (/^id$/m.test(raw) ? '' : undefined)
    block.event = /^event: ?(.*)$/m.exec(raw)?.[1]
  }
  return block
}
