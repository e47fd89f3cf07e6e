// The heads of responses that carry a stream.
import { EVENT_STREAM } from '../protocol/media-types.js'
import type { ServerResponse } from 'node:http'
import { formatStreamName, type StreamName } from '../protocol/event-id.js'
import { formatLink, STREAM_RELATION, streamTarget } from '../protocol/link-header.js'
import { NO_HAND_OFF, prefersStream, STREAM_PREFERENCE } from '../protocol/prefer.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import { claim } from '../http/reply.js'
import type { RequestContext } from './request-context.js'
import { stringOf, withDirectives } from '../http/response-headers.js'
import type { OutgoingHead } from '../http/response-sink.js'

/** Directives for responses that are to reach the client as they are written. */
const UNBUFFERED = ['no-cache', 'no-transform']

export const EVENT_STREAM_HEAD = {
  'Content-Type': EVENT_STREAM,
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no'
}

export function writeEventsHead(res: ServerResponse): boolean {
  if (!claim(res)) return false
  res.writeHead(200, EVENT_STREAM_HEAD)
  return true
}

/** `name`: its name in the link. Throws if there is a head already. */
export function writeStreamHead(
  context: RequestContext,
  found: Stream | Record,
  name: StreamName = { id: found.id, start: 0 }
): void {
  const { res } = context
  claim(res)
  res.statusCode = 200
  res.setHeader('Content-Type', EVENT_STREAM)
  const headers = { res, methods: res }
  setSessionHeader(context, found.sessionId, headers)
  setStreamHeaders(context, formatStreamName(name), headers)
  res.writeHead(200)
}

/** With the id that its client has. */
export function setSessionHeader(
  { instance }: RequestContext,
  sessionId: string | undefined,
  { res, methods }: OutgoingHead
): void {
  const id = sessionId === undefined ? undefined : instance.sessions.idOf(sessionId)
  if (id !== undefined) methods.setHeader.call(res, 'Mcp-Session-Id', id)
}

export function setStreamHeaders(
  context: RequestContext,
  streamName: string,
  headers: OutgoingHead
): void {
  const { req } = context
  const target = streamTarget(req.originalUrl ?? req.url ?? '', streamName)
  setBeside(headers, 'Link', formatLink(target, STREAM_RELATION))
  setUnbuffered(headers)
  if (context.prefer !== undefined) applyPreference(context, headers)
}

export function setUnbuffered({ res, methods }: OutgoingHead): void {
  const given = methods.getHeader.call(res, 'Cache-Control')
  methods.setHeader.call(res, 'Cache-Control', withDirectives(given, UNBUFFERED))
  methods.setHeader.call(res, 'X-Accel-Buffering', 'no')
}

/** Tells a client that has announced itself that it was understood (RFC 7240, 3). */
export function applyPreference(context: RequestContext, headers: OutgoingHead): void {
  if (!context.prefersStream) return
  const { res, methods } = headers
  const applied = methods.getHeader.call(res, 'Preference-Applied')
  if (prefersStream(stringOf(applied))) return
  const preference = context.instance.handoff === 'never' ? NO_HAND_OFF : STREAM_PREFERENCE
  setBeside(headers, 'Preference-Applied', preference)
}

/** With the preference applied and no link, a client would take a head for incomplete. */
export function withdrawPreference(res: ServerResponse): void {
  if (String(res.getHeader('Preference-Applied')).startsWith(STREAM_PREFERENCE))
    res.removeHeader('Preference-Applied')
}

/** Beside the values that there are. */
function setBeside({ res, methods }: OutgoingHead, name: string, value: string): void {
  const present = methods.getHeader.call(res, name)
  const isNone = present === undefined || present === ''
  methods.setHeader.call(res, name, isNone ? value : `${stringOf(present)}, ${value}`)
}
