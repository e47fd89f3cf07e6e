// A body that is read before it is handed on, as far as a limit allows.
import { addPiece } from '../protocol/bytes.js'

type Chunk = Uint8Array<ArrayBuffer>
type Reader = ReadableStreamDefaultReader<Chunk>

/**
 * The whole of a body; or, where that is longer than `limit` bytes, the body as it was, with what
 * has been read of it.
 *
 * @param wait waits for the next chunk
 * @param over called when the last one has come, or nobody wants more
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

/** An empty body ends by itself, also where nobody reads it. */
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
