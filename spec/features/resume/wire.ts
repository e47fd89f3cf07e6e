// A client that knows each byte it got: what a cut has left it with, and what it resumes with.

import { connect } from 'node:net'
import { BlockSplitter, isMessage } from '../../helpers/blocks.js'
import { closeLater } from '../../helpers/close-all.js'
import { MessageFraming } from '../../helpers/http-framing.js'
import type { Json } from '../../helpers/open-stream.js'

/**
 * Reads a response in whatever pieces it comes, and knows at each byte what a client has by then.
 */
export class ResponseReader {
  /** Bytes so far, head included. */
  bytes = 0
  /** Known when the head is complete: HTTP clients show nothing of half a head. */
  status: number | undefined
  /** The target of the `rel="stream"` link. */
  link: string | undefined
  /** As an EventSource keeps it: of whole blocks only, sticky, those with empty data included. */
  lastEventId: string | undefined
  /** Data of the messages that came whole. */
  readonly data: string[] = []
  readonly #splitter = new BlockSplitter(block => {
    if (block.id !== undefined) this.lastEventId = block.id
    if (isMessage(block)) this.data.push(block.data!)
  })
  readonly #framing = new MessageFraming('response', {
    onHead: ({ startLine, headers }) => {
      this.status = Number(startLine.split(' ')[1])
      this.link = /<([^<>]*)>; rel="stream"/.exec(headers['link'] ?? '')?.[1]
    },
    onPayload: payload => this.#splitter.feed(payload)
  })

  get isComplete(): boolean {
    return this.#framing.done
  }

  get messages(): Json[] {
    return this.data.map(text => JSON.parse(text))
  }

  feed(chunk: Buffer): void {
    this.bytes += chunk.length
    this.#framing.feed(chunk)
  }
}

export interface WireRequest {
  method?: 'GET' | 'POST'
  headers?: Record<string, string | undefined>
  body?: unknown
  /** Hears each piece of the response, after `response` has read it. */
  onBytes?: (chunk: Buffer) => void
}

export interface WireExchange {
  response: ResponseReader
  /** The response is complete, or the connection has ended, or we have left. */
  ended: Promise<void>
  /** Resolves with the nth byte of the response. Does not resolve when there are fewer. */
  nthByte(n: number): Promise<void>
  /** Closes our end. */
  leave(): void
}

/** Sends a request on a connection of its own, and leaves when the response is complete. */
export function exchange(
  url: string | URL,
  { method = 'GET', headers = {}, body, onBytes }: WireRequest
): WireExchange {
  const { hostname, port, pathname, search, host } = new URL(url)
  const payload = body === undefined ? '' : JSON.stringify(body)
  const lines = [`${method} ${pathname}${search} HTTP/1.1`, `Host: ${host}`]
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) lines.push(`${name}: ${value}`)
  if (body !== undefined)
    lines.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(payload)}`)

  const response = new ResponseReader()
  const socket = connect({ port: Number(port), host: hostname, noDelay: true })
  const close = closeLater(() => socket.destroy())
  let wake = (): void => {}
  socket.on('data', chunk => {
    response.feed(chunk)
    onBytes?.(chunk)
    wake()
    if (response.isComplete) socket.destroy()
  })
  socket.on('error', () => {})
  const ended = new Promise<void>(resolve =>
    socket.on('close', () => {
      void close()
      resolve()
    })
  )
  socket.write(`${lines.join('\r\n')}\r\n\r\n${payload}`)
  return {
    response,
    ended,
    nthByte: n =>
      new Promise(resolve => {
        wake = () => response.bytes >= n && resolve()
        wake()
      }),
    leave: () => socket.destroy()
  }
}
