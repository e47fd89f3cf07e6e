// The arguments of `write` and `end`, and a body that is gathered from them.

/** Short strings are encoded here: new memory for each costs more than a copy of what is kept. */
const scratch = Buffer.allocUnsafeSlow(64 * 1024)
let isScratchTaken = false

/** Valid during the call only. Throws what Node throws. `second`: the next argument. */
export function withBytes<T>(chunk: unknown, second: unknown, use: (bytes: Buffer) => T): T {
  const encoding = encodingIn(second)
  // A listener that is called by `use` may write to another response.
  if (isScratchTaken || typeof chunk !== 'string' || chunk.length * 3 > scratch.length)
    return use(toBytes(chunk, encoding))
  isScratchTaken = true
  try {
    return use(scratch.subarray(0, scratch.write(chunk, 0, encoding)))
  } finally {
    isScratchTaken = false
  }
}

/** A chunk as text; `undefined`: it cannot be, without a loss. */
export function textIn(chunk: unknown, second: unknown): string | undefined {
  if (typeof chunk === 'string')
    return typeof second !== 'string' || second === 'utf8' ? chunk : undefined
  if (!(chunk instanceof Uint8Array)) return undefined
  const text = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString()
  return text.includes('\ufffd') ? undefined : text
}

export function encodingIn(second: unknown): BufferEncoding {
  return typeof second === 'string' ? (second as BufferEncoding) : 'utf8'
}

function toBytes(chunk: unknown, encoding: BufferEncoding): Buffer {
  if (typeof chunk === 'string') return Buffer.from(chunk, encoding)
  if (Buffer.isBuffer(chunk)) return chunk
  if (chunk instanceof Uint8Array)
    return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
  const error: NodeJS.ErrnoException = new TypeError(
    'The "chunk" argument must be of type string or an instance of Buffer or Uint8Array'
  )
  error.code = chunk === null ? 'ERR_STREAM_NULL_VALUES' : 'ERR_INVALID_ARG_TYPE'
  throw error
}

type WriteCallback = (error?: Error | null) => void

export function callbackIn(args: readonly unknown[]): WriteCallback | undefined {
  for (const arg of args) if (typeof arg === 'function') return arg as WriteCallback
  return undefined
}

/** Whether `end` is given a chunk: Node takes any value that is falsy for none. */
export function hasChunk([chunk]: readonly unknown[]): boolean {
  return Boolean(chunk) && typeof chunk !== 'function'
}

/** Takes a chunk that goes nowhere, as if it had been written. */
export function swallow(args: readonly unknown[]): true {
  const callback = callbackIn(args)
  if (callback !== undefined) process.nextTick(callback, null)
  return true
}

/** The error for `write`, or `end` without a chunk, after `end` (`hasEnded`) or `destroy`. */
export function tooLate(method: 'write' | 'end', hasEnded: boolean): Error {
  if (!hasEnded)
    return streamError('ERR_STREAM_DESTROYED', `Cannot call ${method} after a stream was destroyed`)
  return method === 'write'
    ? streamError('ERR_STREAM_WRITE_AFTER_END', 'write after end')
    : streamError('ERR_STREAM_ALREADY_FINISHED', 'Cannot call end after a stream was finished')
}

export function headersSentError(action: 'set' | 'write'): Error {
  return streamError(
    'ERR_HTTP_HEADERS_SENT',
    `Cannot ${action} headers after they are sent to the client`
  )
}

function streamError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

const NOTHING = Buffer.alloc(0)

/** In one piece of memory: chunks kept apart would take a hundred bytes more each, uncounted. */
export class GatheredBytes {
  #memory = NOTHING
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Copies the bytes, because the memory of short writes is reused. */
  add(bytes: Uint8Array): void {
    const size = this.#size + bytes.length
    if (size > this.#memory.length) this.#resize(this.#size === 0 ? size : size + (size >> 2))
    this.#memory.set(bytes, this.#size)
    this.#size = size
  }

  /** All that has come, in memory of just its size. */
  whole(): Buffer {
    if (this.#size < this.#memory.length) this.#resize(this.#size)
    return this.#memory
  }

  clear(): void {
    this.#memory = NOTHING
    this.#size = 0
  }

  #resize(size: number): void {
    // Not from Node's pool, where one slice keeps all others in memory.
    const memory = Buffer.allocUnsafeSlow(size)
    this.#memory.copy(memory, 0, 0, this.#size)
    this.#memory = memory
  }
}
