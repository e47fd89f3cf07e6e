// Re-enters the endpoint with a message, as the client would have sent it: through the guards behind us, with its credentials.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { withoutStream } from '../core/link-header.js'

/** Milliseconds for which the endpoint's word on an injected message is awaited. */
const PATIENCE = 5000

type MutableRequest = IncomingMessage & { body?: unknown; originalUrl?: string }

/**
 * Turns a request without a body, whose head has been acted upon, into the POST of a message, and lets the endpoint see it.
 * What the endpoint answers is not for the client, who asked for something else: `answer` is called instead.
 */
export function passOnAsMessage(
  req: IncomingMessage,
  res: ServerResponse,
  message: unknown,
  session: string,
  next: (error?: unknown) => void,
  answer: () => void
): void {
  const body = Buffer.from(JSON.stringify(message))
  const headers = {
    'content-type': 'application/json',
    'content-length': String(body.length),
    accept: 'application/json, text/event-stream',
    // A stream URL may come without it; the endpoint needs it.
    'mcp-session-id': session
  }
  req.method = 'POST'
  for (const name of ['url', 'originalUrl'] as const) {
    const url = (req as MutableRequest)[name]
    if (url !== undefined) (req as MutableRequest)[name] = withoutStream(url)
  }
  // Adapters rebuild the headers from `rawHeaders`.
  const kept: string[] = []
  for (let i = 0; i + 1 < req.rawHeaders.length; i += 2) {
    const name = req.rawHeaders[i] as string
    if (!Object.hasOwn(headers, name.toLowerCase())) kept.push(name, req.rawHeaders[i + 1] as string)
  }
  req.rawHeaders = [...kept, ...Object.entries(headers).flat()]
  Object.assign(req.headers, headers)
  // For an endpoint that reads the request itself, or has its parser behind us; and for one whose parser has been in front.
  if (!req.readableEnded) req.unshift(body)
  if ((req as MutableRequest).body !== undefined) (req as MutableRequest).body = message
  answerInstead(res, answer)
  next()
}

function answerInstead(res: ServerResponse, answer: () => void): void {
  const { writeHead, write, end, flushHeaders } = res
  const finish = (): void => {
    clearTimeout(timer)
    Object.assign(res, { writeHead, write, end, flushHeaders })
    for (const name of ['Content-Type', 'Content-Length', 'Transfer-Encoding']) res.removeHeader(name)
    answer()
    // An endpoint that goes on writing gets nowhere, and breaks nothing.
    Object.assign(res, { writeHead: () => res, write: () => true, end: () => res, flushHeaders: () => undefined })
  }
  const timer = setTimeout(finish, PATIENCE)
  timer.unref()
  const endOnce = (): ServerResponse => {
    finish()
    return res
  }
  Object.assign(res, { writeHead: () => res, write: () => true, end: endOnce, flushHeaders: () => undefined })
}
