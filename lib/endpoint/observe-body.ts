// Reads along while a response is written, and changes no byte of it.
import type { ServerResponse } from 'node:http'

type AnyMethod = (this: ServerResponse, ...args: unknown[]) => never

/**
 * Calls `onEnd` when the response is ended, before its last bytes leave, with the whole body, or
 * with `undefined` where it is larger than `limit`. `mayGrow` hears of each piece before it is
 * kept, and of `undefined` where the limit has been passed; `false`: no more is kept. Returns a
 * function that ends the reading along: what has been kept is let go.
 */
export function observeBody(
  res: ServerResponse,
  limit: number,
  onEnd: (body: Buffer | undefined) => void,
  mayGrow: (bytes: number | undefined) => boolean = () => true
): () => void {
  let chunks: Buffer[] | undefined = []
  let size = 0
  const keep = (chunk: unknown, encoding: unknown): void => {
    if (chunks === undefined || (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)))
      return
    const bytes =
      typeof chunk === 'string'
        ? Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
        : Buffer.from(chunk)
    size += bytes.length
    const isKept = mayGrow(size <= limit ? bytes.length : undefined) && size <= limit
    if (isKept) chunks.push(bytes)
    else chunks = undefined
  }
  const { write, end } = res as unknown as Record<'write' | 'end', AnyMethod>
  res.write = function writeObserved(this: ServerResponse, ...args: unknown[]): boolean {
    keep(args[0], args[1])
    return write.apply(this, args)
  } as ServerResponse['write']
  let isObserving = true
  res.end = function endObserved(this: ServerResponse, ...args: unknown[]): ServerResponse {
    if (isObserving) {
      isObserving = false
      keep(args[0], args[1])
      onEnd(chunks === undefined ? undefined : Buffer.concat(chunks))
    }
    return end.apply(this, args)
  } as ServerResponse['end']
  return () => {
    isObserving = false
    chunks = undefined
  }
}
