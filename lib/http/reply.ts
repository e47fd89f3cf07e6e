// Answers of ours, after an asynchronous step: middleware in front may have answered meanwhile, and
// what fails in it must not end the process.
import { JSON_TYPE } from '../protocol/media-types.js'
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isOfNetwork } from './sockets.js'
import { faultError, type StreamFault } from '../protocol/errors.js'
import { type ErrorObject, errorResponse, type RequestId } from '../protocol/json-rpc.js'
import { hasRoomAfter } from './node-internals.js'
import { passedOnOf } from './response-headers.js'
import { warnOfThrow } from './warnings.js'

/** Whether an answer can still be given: none has been begun, and the client is there. */
export function canAnswer(res: ServerResponse): boolean {
  return !res.headersSent && isWritable(res)
}

/** Whether what has been begun can go on. */
export function isWritable(res: ServerResponse): boolean {
  return !res.writableEnded && !res.destroyed
}

/**
 * `false`: it cannot be answered. Node reports a late write as `error`, which may have no listener.
 */
export function claim(res: ServerResponse): boolean {
  if (!canAnswer(res)) return false
  if (!res.listeners('error').includes(ignore)) res.on('error', ignore)
  return true
}

function ignore(): void {
  // We hear of the end of the connection by other events.
}

/** Writes where nothing catches what middleware in front of us may throw when the head is sent. */
export function guarded<T>(res: ServerResponse, write: () => T): T | undefined {
  try {
    return write()
  } catch (error) {
    warnOfThrow(error)
    res.destroy()
    return undefined
  }
}

/** `compression` in front holds bytes back until `flush`. `false`: no room for more. */
export function writeGuarded(res: ServerResponse, write: () => unknown): boolean {
  const hasRoom = guarded(res, () => {
    const room = wrote(res, write())
    ;(res as { flush?: () => void }).flush?.()
    return room
  })
  return hasRoom === true
}

/** The last write of each response that is under way: middleware in front does it later. */
const underWay = new WeakMap<ServerResponse, Promise<unknown>>()

/** With what `write` has returned. Returns whether there is room for more. */
export function wrote(res: ServerResponse, said: unknown): boolean {
  if (said instanceof Promise) underWay.set(res, said)
  return hasRoomAfter(res, said)
}

/** Ends a response in the same way, once everything is written. */
export function endGuarded(res: ServerResponse, end: () => unknown = () => res.end()): void {
  const last = underWay.get(res)
  if (last === undefined) return void guarded(res, end)
  const endIt = (): unknown => guarded(res, end)
  void last.then(endIt, endIt)
}

/** Breaks off, so that it is not taken for the whole: without a length or chunks, by a reset. */
export function breakOff(res: ServerResponse): void {
  const isFramed = res.chunkedEncoding || res.hasHeader('Content-Length')
  if (!isFramed && res.socket !== null && isOfNetwork(res.socket)) reset(res.socket)
  res.destroy()
}

function reset(socket: Socket): void {
  try {
    socket.resetAndDestroy()
  } catch {
    // Such as under TLS, where Node resets none.
  }
}

export function answer(
  res: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders = {},
  body?: string | Uint8Array
): void {
  if (!claim(res)) return
  const length = body === undefined ? {} : { 'Content-Length': Buffer.byteLength(body) }
  res.writeHead(status, { ...length, ...headers })
  res.end(body)
}

export function answerJson(
  res: ServerResponse,
  status: number,
  json: string,
  headers: OutgoingHttpHeaders = {}
): void {
  answer(res, status, { 'Content-Type': JSON_TYPE, 'Cache-Control': 'no-store', ...headers }, json)
}

/** Without a request (`id` is `null`), the status has to say that it is an error. */
function answerError(res: ServerResponse, id: RequestId | null, error: ErrorObject): void {
  answerJson(res, id === null ? 400 : 200, errorResponse(id, error))
}

export function refuse(
  res: ServerResponse,
  status: number,
  fault: StreamFault,
  headers: Record<string, string> = {}
): void {
  answerJson(res, status, errorResponse(null, faultError(fault)), headers)
}

/** Why a message comes to nothing: the endpoint has refused it, or we have. */
export type Refusal =
  /** By a status, with the endpoint's response. */
  | { readonly kind: 'refusal'; readonly response: IncomingMessage }
  | { readonly kind: 'error'; readonly error: ErrorObject }
  /** The endpoint has said nothing, or nothing in time. */
  | { readonly kind: 'none' }

export function answerRefusal(res: ServerResponse, id: RequestId | null, refusal: Refusal): void {
  switch (refusal.kind) {
    case 'refusal':
      return relayAnswer(refusal.response, res)
    case 'error':
      return answerError(res, id, refusal.error)
    case 'none':
      return refuse(res, 502, 'endpoint-failed')
  }
}

/** Passes an answer of the endpoint on to a client, as it is. */
export function relayAnswer(answer: IncomingMessage, res: ServerResponse): void {
  if (!claim(res)) return void answer.destroy()
  // It may have broken off while it waited to be relayed.
  if (answer.destroyed) return void res.destroy()
  res.statusCode = answer.statusCode ?? 502
  for (const [name, value] of passedOnOf(answer)) res.setHeader(name, value)
  answer.once('error', () => res.destroy())
  // On `error` as well: if middleware in front ends the response, what is piped on fails.
  for (const event of ['close', 'error']) res.once(event, () => answer.destroy())
  answer.on('data', (chunk: Buffer) => {
    if (!writeGuarded(res, () => res.write(chunk))) answer.pause()
  })
  answer.once('end', () => endGuarded(res))
  res.on('drain', () => answer.resume())
}

/** Answers that nothing will come: `EventSource` and the official clients then do not reconnect. */
export function noContent(res: ServerResponse): void {
  answer(res, 204, { 'Cache-Control': 'no-store' })
}
