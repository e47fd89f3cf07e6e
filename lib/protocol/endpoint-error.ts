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

  /**
   * The error in a message; `undefined` where it has none. A code that is not an integer becomes
   * -32603 (internal error).
   */
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

  /** Checks the name and not the class: the wire may be served by another copy of this package. */
  static is(error: unknown): error is EndpointError {
    return error instanceof Error && error.name === 'EndpointError'
  }
}
