// Reads a body before it is given to the caller, up to a limit.
import { addPiece } from '../protocol/bytes.js'

type Chunk = Uint8Array<ArrayBuffer>
type Reader = ReadableStreamDefaultReader<Chunk>

/**
 * Reads a whole body. If it is longer than `limit` bytes, the result is a stream of all its bytes.
 *
 * @param wait waits for the next chunk
 * @param over called when the last chunk has been read, or the reader has cancelled
 */
export async function readAhead(
  body: ReadableStream<Uint8Array>,
  limit: number,
  wait: <T>(chunk: Promise<T>) => Promise<T>,
  over = (): void => undefined
): Promise<Blob | ReadableStream<Uint8Array>> {
  const chunks: Chunk[] = []
  const reader = body.getReader() as Reader
  let size = 0
  while (size <= limit) {
    const { value } = await wait(reader.read())
    if (value === undefined) {
      over()
      return new Blob(chunks)
    }
    addPiece(chunks, value)
    size += value.length
  }
  return passedOn(chunks, reader, over)
}

/**
 * The chunks that have been read, and then the rest. It pulls before it is read, so an empty body
 * ends even if nobody reads it.
 */
function passedOn(chunks: Chunk[], reader: Reader, over: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      try {
        const chunk = chunks.shift() ?? (await reader.read()).value
        if (chunk !== undefined) return controller.enqueue(chunk)
        controller.close()
      } catch (error) {
        controller.error(error)
      }
      over()
    },
    cancel(reason) {
      over()
      return reader.cancel(reason)
    }
  })
}
