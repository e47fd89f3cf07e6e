// A request that another instance has forwarded to this one. It is given to this instance's own
// server, so that it passes all of the application's checks, as if its client had come here.
import { type ClientRequest, type IncomingMessage, request, type Server } from 'node:http'
import type { Exchange, ExchangeUser } from './relay.js'
import { connect } from '../endpoint/endpoint-client.js'
import { relayedConnection, type RelayedWire } from '../http/loopback.js'
import { passedOnOf } from '../http/response-headers.js'
import type { UnderWay } from '../streams/when-idle.js'
import { decodeHead, encodeHead, type RequestHead, takesComments } from './relay-head.js'

export class RelayedRequest implements ExchangeUser {
  readonly #exchange: Exchange
  readonly #server: Server
  /** Closing waits for these, as the connection ends with it. */
  readonly #calls: UnderWay
  readonly #debug: (format: string, ...args: unknown[]) => void
  #request: ClientRequest | undefined
  #response: IncomingMessage | undefined

  constructor(
    exchange: Exchange,
    server: Server,
    calls: UnderWay,
    debug: (format: string, ...args: unknown[]) => void
  ) {
    this.#exchange = exchange
    this.#server = server
    this.#calls = calls
    this.#debug = debug
  }

  // ExchangeUser

  readonly bytes = (bytes: Uint8Array): boolean => {
    if (this.#request !== undefined) return this.#request.write(bytes)
    try {
      this.#request = this.#begin(decodeHead<RequestHead>(bytes))
    } catch (error) {
      this.#debug('a relayed request cannot be answered: %O', error)
      this.#exchange.reset()
    }
    return true
  }

  readonly end = (): void => void this.#request?.end()

  readonly drained = (): void => void this.#response?.resume()

  readonly broken = (): void => void this.#request?.destroy()

  readonly over = (): void => this.#calls.delete(this)

  #begin({ kind, method, url, headers, socket }: RequestHead): ClientRequest {
    if (method === 'POST') this.#calls.add(this)
    const { client, server, wire } = relayedConnection(socket, kind)
    const relayed = request({
      createConnection: () => client,
      method,
      path: url,
      // A request of HTTP/1.0 may have no `Host`, but Node's server demands one in HTTP/1.1.
      headers: [
        ...headers,
        ...(hasHost(headers) ? [] : ['Host', '']),
        'Connection',
        'close'
      ] as readonly string[]
    })
    const exchange = this.#exchange
    relayed.on('drain', () => exchange.resume())
    relayed.on('response', response => this.#answered(response, wire))
    relayed.on('error', error => this.#debug('a relayed request broke off: %s', error.message))
    // Also if it was answered by 101 (Switching Protocols), which Node does not report as response.
    relayed.on('close', () => {
      if (this.#response === undefined) exchange.reset()
    })
    connect(this.#server, server)
    return relayed
  }

  #answered(response: IncomingMessage, wire: RelayedWire): void {
    const exchange = this.#exchange
    this.#response = response
    const status = response.statusCode ?? 502
    const { isHandedBack } = wire
    const head = { isHandedBack, status, headers: passedOnOf(response) }
    wire.isKeptAlive = takesComments(head)
    exchange.write(encodeHead(head))
    response.on('data', (chunk: Buffer) => {
      if (!exchange.write(chunk)) response.pause()
    })
    response.on('end', () => exchange.end())
    response.on('error', () => undefined)
    response.on('close', () => {
      if (!response.complete) exchange.reset()
    })
  }
}

function hasHost(headers: readonly string[]): boolean {
  return headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'host')
}
