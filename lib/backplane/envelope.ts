// What every message between instances, and every value that they share, is wrapped in: a version,
// an encrypted text, and a MAC over all of it.
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual
} from 'node:crypto'

/** A message of any other version is dropped: its sender is an instance of another release. */
export const VERSION = 1

/** `version, kind, counter (6 bytes), initialization vector`, then the text, then the MAC. */
const HEAD = 24
const IV_AT = 8
const MAC = 32
const LARGEST_COUNTER = 2 ** 48 - 1

/** Why a message was dropped. */
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

  /** The first secret signs, all are accepted. */
  constructor(secrets: readonly string[]) {
    this.#keys = secrets.map(secret => ({
      mac: derive(secret, 'mac'),
      cipher: derive(secret, 'cipher'),
      name: derive(secret, 'name')
    }))
  }

  /**
   * @param context what the message belongs to, such as its sender and its receiver: it opens
   *   nowhere else.
   */
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

  /**
   * What stands for a text in a key: nobody can tell the one from the other without a secret. One
   * per secret, that of the first first.
   */
  namesOf(text: string): readonly string[] {
    return this.#keys.map(({ name }) =>
      createHmac('sha256', name).update(text).digest('base64url').slice(0, 27)
    )
  }

  /** The name that is written. */
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
