// Each message and shared value is wrapped: a version, the encrypted text, and a MAC over all.
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual
} from 'node:crypto'

/** A message of another version is dropped: its sender runs another release. */
export const VERSION = 1

/** Bytes before the text: version (1), kind (1), counter (6), initialization vector (16). */
const HEAD = 24
const IV_AT = 8
const MAC = 32
const LARGEST_COUNTER = 2 ** 48 - 1

/** Why a message was dropped. `forged`: its MAC fits none of the secrets, or not the context. */
export type Fault = 'malformed' | 'version' | 'forged'

export interface Opened {
  readonly kind: number
  readonly counter: number
  readonly text: Buffer
}

interface Keys {
  readonly mac: Buffer
  readonly cipher: Buffer
  readonly name: Buffer
}

export class Envelopes {
  readonly #keys: readonly Keys[]

  /** @param secrets the first one signs and encrypts; messages under any of them are opened. */
  constructor(secrets: readonly string[]) {
    this.#keys = secrets.map(secret => ({
      mac: derive(secret, 'mac'),
      cipher: derive(secret, 'cipher'),
      name: derive(secret, 'name')
    }))
  }

  /** @param context sender and receiver, or key: the MAC covers it against copies elsewhere. */
  seal(kind: number, counter: number, text: Uint8Array, context: string): Buffer {
    const { mac, cipher } = this.#keys[0] as Keys
    const message = Buffer.allocUnsafe(HEAD + text.length + MAC)
    message[0] = VERSION
    message[1] = kind
    message.writeUIntBE(counter % LARGEST_COUNTER, 2, 6)
    const iv = randomBytes(HEAD - IV_AT)
    message.set(iv, IV_AT)
    message.set(createCipheriv('aes-256-ctr', cipher, iv).update(text), HEAD)
    const end = HEAD + text.length
    message.set(macOf(mac, message.subarray(0, end), context), end)
    return message
  }

  open(message: Uint8Array, context: string): Opened | Fault {
    const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength)
    if (bytes.length < HEAD + MAC) return 'malformed'
    if (bytes[0] !== VERSION) return 'version'
    const end = bytes.length - MAC
    const signed = bytes.subarray(0, end)
    const given = bytes.subarray(end)
    const keys = this.#keys.find(({ mac }) => timingSafeEqual(macOf(mac, signed, context), given))
    if (keys === undefined) return 'forged'
    const iv = bytes.subarray(IV_AT, HEAD)
    const text = createDecipheriv('aes-256-ctr', keys.cipher, iv).update(bytes.subarray(HEAD, end))
    return { kind: bytes[1] as number, counter: bytes.readUIntBE(2, 6), text }
  }

  /** A keyed digest (27 characters) in place of a text in Redis. One for each secret, in order. */
  namesOf(text: string): readonly string[] {
    return this.#keys.map(({ name }) =>
      createHmac('sha256', name).update(text).digest('base64url').slice(0, 27)
    )
  }

  /** The digest under the first secret: the one that new keys are written with. */
  nameOf(text: string): string {
    return this.namesOf(text)[0] as string
  }
}

function derive(secret: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', `express-mcp-streams backplane ${purpose}`, 32))
}

function macOf(key: Buffer, signed: Uint8Array, context: string): Buffer {
  return createHmac('sha256', key).update(`${context}\n`).update(signed).digest()
}
