// What the specs of this room share: a clock of their own, calls at a revision with polling, and
// what clients are told.

import { jest } from '@jest/globals'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import { callTool, get, headersFor, notification, post, type RequestId } from '../../helpers/mcp.js'
import type { Block, OpenStream } from '../../helpers/open-stream.js'

/**
 * Time stands still until `jest.advanceTimersByTime`, for what is written in JavaScript: Node's own
 * sockets go on. Undone by
 * `jest.useRealTimers()`.
 */
export function stopTheClock(): void {
  jest.useFakeTimers({
    doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate', 'hrtime']
  })
}

/** What a client at 2025-11-25 sends with everything. */
export const MODERN = headersFor({ version: '2025-11-25' })

export const call = (
  url: string,
  id: RequestId = 1,
  headers: Record<string, string> = {}
): Promise<OpenStream> => post(url, callTool(id, 'any'), { ...MODERN, ...headers })

/** As the official clients resume. */
export const resumeAtEndpoint = (
  url: string,
  lastEventId: string,
  headers: Record<string, string> = {}
) => get(url, { ...MODERN, ...headersFor({ lastEventId }), ...headers })

/** As a client resumes that follows links. */
export const resume = (
  streamUrl: string,
  lastEventId?: string,
  headers: Record<string, string> = {}
) => get(streamUrl, { ...MODERN, ...headersFor({ lastEventId }), ...headers })

/** The nth message of a call, so and so long. */
export const note = (n: number, size = 0) =>
  notification('notifications/message', { level: 'info', data: `${n} `.padEnd(size, 'x') })

/** The numbers of the notes among some messages, and the ids and reasons of responses. */
export const gist = (
  messages: OpenStream['messages'] extends () => infer T ? T : never
): unknown[] =>
  messages.map(({ id, params, error, result }) =>
    id === undefined
      ? Number.parseInt(params.data, 10)
      : [id, error?.data?.reason ?? (result ? 'result' : 'error')]
  )

export const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1)

/** A block that a client can count: with data that is not empty. */
export const isEvent = ({ data, event }: Block): boolean =>
  data !== undefined && data !== '' && event !== 'prime'

/** Goes away, and waits until the server has noticed. */
export async function leave(
  response: OpenStream,
  servers: { streams: { stats(): { connections: number } } }
): Promise<void> {
  const { connections } = servers.streams.stats()
  response.destroy()
  while (servers.streams.stats().connections >= connections) await turn()
}

/** One turn of the event loop. */
export const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** Writes until the endpoint is told to wait. Returns how many notes were taken. */
export function fill(rawCall: RawCall, size: number, from = 1): number {
  let n = from
  while (rawCall.emit(note(n, size))) n++
  return n
}
