// Sends the body of a request to another instance, chunk by chunk.
import type { IncomingMessage } from 'node:http'
import type { Exchange } from '../backplane/exchange.js'

/** @param tooLarge called for each chunk that goes beyond `limit` bytes, and is not sent. */
export function sendBody(
  req: IncomingMessage,
  exchange: Exchange,
  limit: number,
  tooLarge: () => void
): void {
  let sent = 0
  req.on('data', (chunk: Buffer) => {
    sent += chunk.length
    if (sent > limit) return tooLarge()
    if (!exchange.write(Uint8Array.from(chunk))) req.pause()
  })
  req.once('end', () => exchange.end()).resume()
}
