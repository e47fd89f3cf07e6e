// An endpoint whose POSTs open a stream of two events, and the cookie that their answers bring.

import type { RequestHandler } from 'express'
import { ownerCookie, type OwnerCookieOptions } from '../../../lib/features/cookie/index.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { callTool, headersFor, notification, post } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamUrl } from '../../helpers/serve.js'

export const SECRET = 'a secret of ours'
export const VERSION = '2025-11-25'
export const NEWS = notification('notifications/message', { level: 'info', data: 'news' })
export const ALICE = { Authorization: 'Bearer alice' }
export const BOB = { Authorization: 'Bearer bob' }

/** Opens its stream, says one thing, and leaves it open; it answers pings, as it must. */
export const sayNews = ({ emit, open, req, message, result }: RawCall): unknown => {
  if (message?.method === 'ping') return result({})
  return req.method === 'POST' ? emit(NEWS) : open()
}

export async function serveCookies(
  cookie: OwnerCookieOptions = { secret: SECRET },
  { inFront, script = sayNews, ...options }: McpStreamsOptions & Setup = {}
) {
  const endpoint = rawEndpoint(script)
  const served = await serve(endpoint, { cookie: ownerCookie(cookie), ...options }, inFront)
  /** A call, once its first event has come. */
  const call = async (headers: Record<string, string> = {}) => {
    const response = await post(served.url, callTool(1, 'x'), {
      ...headersFor({ version: VERSION }),
      ...headers
    })
    await response.nextMessage()
    return { response, own: streamUrl(response, served.url), cookie: cookieOf(response) }
  }
  return { ...served, endpoint, call }
}

interface Setup {
  inFront?: RequestHandler[]
  script?: (call: RawCall) => unknown
}

/** The lines of `Set-Cookie`. */
export const setCookies = ({ headers }: OpenStream): string[] => headers['set-cookie'] ?? []

/** What a browser sends back of an answer's cookies; '' where it has set none. */
export const cookieOf = (response: OpenStream): string =>
  setCookies(response)
    .map(line => line.split(';', 1)[0])
    .join('; ')
