// Answers of ours: a status and, where a body is due, a JSON-RPC error in it.
import type { ServerResponse } from 'node:http'
import { faultMessage, STREAM_ERROR, type StreamFault } from '../core/errors.js'
import { errorResponse } from '../core/json-rpc.js'

/** Refuses a request about a stream. */
export function refuse(
  res: ServerResponse,
  status: number,
  fault: StreamFault,
  headers: Record<string, string> = {}
): void {
  // Somebody in front has answered meanwhile, or the client has left.
  if (res.headersSent || res.destroyed) return
  const body = errorResponse(null, STREAM_ERROR, faultMessage(fault), { reason: fault })
  res.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
    ...headers
  })
  res.end(body)
}

/** Nothing to say, and nothing to come: browsers' EventSource and the official clients stop on it. */
export function noContent(res: ServerResponse): void {
  if (res.headersSent || res.destroyed) return
  res.writeHead(204, { 'Cache-Control': 'no-store' })
  res.end()
}
