// Answers of ours, and the rules for every response that is written after an asynchronous step:
// somebody in front may have given or ended it meanwhile, and what fails in it must not end the
// process.
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { faultMessage, STREAM_ERROR, type StreamFault } from '../protocol/errors.js'
import { errorResponse } from '../protocol/json-rpc.js'

/** Whether an answer can still be given: nobody has begun or ended one, and the client is there. */
export function canAnswer(res: ServerResponse): boolean {
  return !res.headersSent && isWritable(res)
}

/** Whether what has been begun can go on. */
export function isWritable(res: ServerResponse): boolean {
  return !res.writableEnded && !res.destroyed
}

/**
 * Takes a response that we answer ourselves, to be asked for before its head. `false`: there is no
 * answer to give any more. Node reports a write that comes too late as an `error` of the response,
 * which nobody else would listen to.
 */
export function claim(res: ServerResponse): boolean {
  if (!canAnswer(res)) return false
  if (!res.listeners('error').includes(ignore)) res.on('error', ignore)
  return true
}

function ignore(): void {
  // The connection's end tells the rest of us.
}

/** Writes where nobody is left to catch what it throws: a hook on the head, in front of us, may. */
export function guarded(res: ServerResponse, write: () => unknown): void {
  try {
    write()
  } catch {
    res.destroy()
  }
}

/** Gives a whole answer, if there is one to give still. */
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

/** Gives an answer in JSON. */
export function answerJson(
  res: ServerResponse,
  status: number,
  json: string,
  headers: OutgoingHttpHeaders = {}
): void {
  answer(
    res,
    status,
    { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', ...headers },
    json
  )
}

/** Refuses a request about a stream. */
export function refuse(
  res: ServerResponse,
  status: number,
  fault: StreamFault,
  headers: Record<string, string> = {}
): void {
  answerJson(
    res,
    status,
    errorResponse(null, STREAM_ERROR, faultMessage(fault), { reason: fault }),
    headers
  )
}

/**
 * Nothing to say, and nothing to come: browsers' EventSource and the official clients stop on it.
 */
export function noContent(res: ServerResponse): void {
  answer(res, 204, { 'Cache-Control': 'no-store' })
}
