// The JSON-RPC error that an endpoint, or the server behind a wire, has answered with.
import { isObject, type Message } from './json-rpc.js'

export class EndpointError extends Error {
  readonly code: number
  readonly data: unknown

  constructor(code: number, message: string, data: unknown) {
    super(message)
    this.name = 'EndpointError'
    this.code = code
    this.data = data
  }

  /** The error in a message, where it has one that JSON-RPC would know. */
  static in(message: Message | undefined): EndpointError | undefined {
    const error = message?.error
    if (!isObject(error)) return undefined
    const { code, message: text, data } = error
    return new EndpointError(
      Number.isSafeInteger(code) ? (code as number) : -32603,
      String(text),
      data
    )
  }

  /** By its name: a wire may be served by another copy of this package. */
  static is(error: unknown): error is EndpointError {
    return error instanceof Error && error.name === 'EndpointError'
  }
}
