// What two instances say to each other ahead of a body: a head in JSON, with its length in front.
import type { SocketFacts } from '../endpoint/loopback.js'

/** A request as it came to the instance that its client has reached. */
export interface RequestHead {
  readonly method: string
  readonly url: string
  /** A flat list, as they were sent. */
  readonly headers: readonly string[]
  /** What its guards ask the socket for. */
  readonly socket: SocketFacts
}

export interface ResponseHead {
  readonly status: number
  readonly headers: readonly (readonly [string, readonly string[]])[]
}

const LENGTH = 4
/** Bytes that a head may have: Node takes heads of 16 KiB, and applications may allow more. */
const LONGEST = 1024 * 1024

export function encodeHead(head: RequestHead | ResponseHead): Buffer {
  const json = Buffer.from(JSON.stringify(head))
  const bytes = Buffer.allocUnsafe(LENGTH + json.length)
  bytes.writeUInt32BE(json.length)
  bytes.set(json, LENGTH)
  return bytes
}

/** Takes the head off what comes. */
export class HeadReader<Head> {
  #bytes = Buffer.alloc(0)

  /** `undefined`: not all of it is there. Throws where it is none. */
  read(bytes: Uint8Array): { readonly head: Head; readonly rest: Uint8Array } | undefined {
    this.#bytes = Buffer.concat([this.#bytes, bytes])
    if (this.#bytes.length < LENGTH) return undefined
    const end = LENGTH + this.#bytes.readUInt32BE()
    if (end > LONGEST) throw new Error('The head of a relayed message is too long')
    if (this.#bytes.length < end) return undefined
    const head = JSON.parse(this.#bytes.toString('utf8', LENGTH, end)) as Head
    return { head, rest: this.#bytes.subarray(end) }
  }
}

/** Of the connection that a request came over, and not of the request (RFC 9110, 7.6.1). */
const OF_CONNECTION =
  /^(?:connection|expect|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i

/** A request's headers as another instance gets them. `without`: more that do not go along. */
export function headersToRelay(rawHeaders: readonly string[], without?: RegExp): string[] {
  const headers: string[] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (!OF_CONNECTION.test(name) && without?.test(name) !== true)
      headers.push(name, rawHeaders[i + 1] as string)
  }
  return headers
}
