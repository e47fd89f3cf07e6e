// The id of a session that its client gets: sealed, with what it takes to begin the session again.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

/** What a session is made of. */
export interface SessionParts {
  /** The id that the endpoint has given it. */
  readonly endpointId: string
  /** The time of day, in milliseconds, after which it is not begun again. */
  readonly expires: number
  /** Of its client's `initialize`. */
  readonly params: Record<string, unknown>
  /** What the endpoint has answered to that. */
  readonly revision: unknown
  readonly capabilities: unknown
}

/** How each sealed id begins; the digit is that of the format. */
const MARK = 'mcps1.'
/** Bytes, as GCM has them. */
const NONCE = 12
const TAG = 16
/** The mark and the nonce, which is random: two ids never begin alike. */
const NAME_LENGTH = MARK.length + (NONCE / 3) * 4
/** Characters: servers and proxies limit a head to 8 or 16 KB. */
const LONGEST = 4096

export function isSealed(id: string): boolean {
  return id.startsWith(MARK)
}

/** The beginning of a sealed id, by which the session is known here. */
export function nameIn(id: string): string {
  return id.slice(0, NAME_LENGTH)
}

export class Seals {
  readonly #keys: readonly Uint8Array[]

  /** @param secrets the first one seals, and all are accepted. */
  constructor(secrets: readonly string[]) {
    this.#keys = secrets.map(
      secret => new Uint8Array(hkdfSync('sha256', secret, '', 'express-mcp-streams: session', 32))
    )
  }

  /** `undefined`: it would be too long. */
  seal(owner: string, parts: SessionParts): string | undefined {
    const { endpointId, expires, params, revision, capabilities } = parts
    const text = JSON.stringify([endpointId, expires, params, revision, capabilities])
    const nonce = randomBytes(NONCE)
    const cipher = createCipheriv('aes-256-gcm', this.#keys[0] as Uint8Array, nonce)
    cipher.setAAD(boundTo(owner))
    const sealed = Buffer.concat([cipher.update(text), cipher.final()])
    const id = MARK + Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString('base64url')
    return id.length > LONGEST ? undefined : id
  }

  /** `undefined`: forged, cut off, of another secret or of another owner, which all look alike. */
  open(owner: string, id: string): SessionParts | undefined {
    if (!isSealed(id) || id.length > LONGEST) return undefined
    const text = id.slice(MARK.length)
    const bytes = Buffer.from(text, 'base64url')
    // Of one session there is one id: what a lax decoder reads in the same way is another.
    if (bytes.length < NONCE + TAG || bytes.toString('base64url') !== text) return undefined
    for (const key of this.#keys) {
      const json = opened(bytes, key, owner)
      if (json === undefined) continue
      const [endpointId, expires, params, revision, capabilities] = JSON.parse(json) as [
        string,
        number,
        Record<string, unknown>,
        unknown,
        unknown
      ]
      return { endpointId, expires, params, revision, capabilities }
    }
    return undefined
  }
}

function opened(bytes: Buffer, key: Uint8Array, owner: string): string | undefined {
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE), {
    authTagLength: TAG
  })
  decipher.setAAD(boundTo(owner)).setAuthTag(bytes.subarray(-TAG))
  try {
    const start = decipher.update(bytes.subarray(NONCE, -TAG))
    return Buffer.concat([start, decipher.final()]).toString()
  } catch {
    return undefined
  }
}

/** In JSON, as UTF-8 cannot hold every string. */
function boundTo(owner: string): Buffer {
  return Buffer.from(JSON.stringify(owner))
}
