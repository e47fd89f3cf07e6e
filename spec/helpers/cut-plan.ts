// What a cut proxy is told, and what it tells: cuts, plans, and records of what has passed.

import type { Json } from './open-stream.js'

/**
 * FIN and RST reach both sides. Silence forwards nothing more and keeps both sockets open until
 * `proxy.cutNow()` or `proxy.close()`.
 */
export type CutBy = 'fin' | 'rst' | 'silence'

export type Direction = 'response' | 'request'

export interface Cut {
  by: CutBy
  /** Whose bytes are counted. Both directions stop in any case. Default: 'response'. */
  direction?: Direction
  /**
   * Bytes n of this request (or of its response), head included, that still pass; byte n + 1 never
   * does. The cut falls as soon as they have passed; with 0, when the first byte arrives.
   */
  afterBytes?: number
  /**
   * SSE events of the response that still pass, each to its last byte. An event is a block with a
   * `data` line, so a primer with empty data counts and a comment does not. The cut falls as soon
   * as they have passed; with 0, behind the response head.
   */
  afterEvents?: number
}

/** A request as the plan sees it. */
export interface ProxiedRequest {
  /**
   * Ordinal of the request in this proxy, from 0. Equal to the connection's when nothing is kept
   * alive.
   */
  index: number
  /** Ordinal of the TCP connection it came on, from 0. */
  connection: number
  method: string
  url: string
  /** Names in lower case. */
  headers: Record<string, string>
  /** The body as text, chunked framing taken off; empty with `hold: 'head'`. */
  body: string
  /** The body parsed as JSON, or undefined. */
  message: Json
}

export type Plan = (Cut | undefined)[] | ((request: ProxiedRequest) => Cut | undefined)

/** What became of one request. The numbers are live. */
export interface Passage extends ProxiedRequest {
  /** Bytes of this request and of its response that were forwarded. */
  bytes: { request: number; response: number }
  /** SSE events of the response that were forwarded whole. */
  events: number
  status: number | undefined
  cut: Cut | undefined
}

/** What became of one connection. The numbers are live. */
export interface ConnectionRecord {
  index: number
  bytes: { request: number; response: number }
  passages: Passage[]
  /** 'client' and 'server': who closed or reset it; 'closed': by `proxy.close()`. */
  ended: 'open' | 'client' | 'server' | 'closed' | CutBy
}

/** Throws on a cut that says too little or too much. */
export function validate({ direction = 'response', afterBytes, afterEvents }: Cut): void {
  if ((afterBytes === undefined) === (afterEvents === undefined)) {
    throw new TypeError('a cut needs either afterBytes or afterEvents')
  }
  if (afterEvents !== undefined && direction === 'request')
    throw new TypeError('requests carry no events')
}
