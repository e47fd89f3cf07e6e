// The run that every combination has to survive: a call with progress, cut in the middle of an
// event, resumed by its stream URL.

import { expect } from '@jest/globals'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { listen, type Handler } from '../../helpers/listen.js'
import { callTool, get, post } from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'
import type { Endpoint, EndpointKind } from './endpoints.js'

const EVENTS = 3
const EVENT_SIZE = 4000
/**
 * Behind the head and the first event, whatever headers there are, and well inside the second
 * event.
 */
const CUT_AFTER = 7000

export interface RunOptions {
  /** What the client sends besides what the endpoint wants. */
  headers?: Record<string, string>
  /** Path and query of the endpoint. Default: `/mcp`. */
  path?: string
}

export interface Run {
  /** The messages of a call that nobody cuts. */
  uncut: Json[]
  /** The messages of the same call, cut and resumed: what came before and what came after. */
  resumed: Json[]
  /** The response that was cut, and the one that went on with it. */
  first: OpenStream
  second: OpenStream
}

/** The messages of a call without the middleware. */
export async function runBare(
  kind: EndpointKind,
  app: Handler,
  endpoint: Endpoint
): Promise<Json[]> {
  const { url } = await listen(app)
  return call(kind, `${url}/mcp`, await kind.greet(`${url}/mcp`), endpoint)
}

/** Makes the call twice: undisturbed, and cut and resumed. */
export async function runWithCut(
  kind: EndpointKind,
  app: Handler,
  endpoint: Endpoint,
  options: RunOptions = {}
): Promise<Run> {
  const { port } = await listen(app)
  const isCut = ({ method, message }: { method: string; message: Json }) =>
    method === 'POST' && message?.params?.arguments?.key === 'cut'
  const proxy = await createCutProxy({
    target: port,
    plan: request => (isCut(request) ? { by: 'fin', afterBytes: CUT_AFTER } : undefined)
  })
  const url = `${proxy.url}${options.path ?? '/mcp'}`
  const headers = { ...options.headers, ...(await kind.greet(url)) }
  const uncut = await call(kind, url, headers, endpoint)

  endpoint.log.release('cut', 2)
  const first = await post(url, messageOf(kind, 'cut'), headers)
  expect(await first.ended).toBe('aborted')
  const { id } = first.events.at(-1)!
  expect(id).toMatch(/^[\w-]{21}\.r7\.1$/)
  // The endpoint goes on while nobody listens.
  endpoint.log.release('cut', EVENTS - 1)
  await endpoint.log.ended.nth(2)

  const second = await get(streamUrl(first, url), { ...headers, 'last-event-id': id! })
  expect(await second.ended).toBe('end')
  return { uncut, resumed: [...first.messages(), ...second.messages()], first, second }
}

async function call(
  kind: EndpointKind,
  url: string,
  headers: Record<string, string>,
  endpoint: Endpoint
): Promise<Json[]> {
  endpoint.log.release('uncut', EVENTS + 1)
  const response = await post(url, messageOf(kind, 'uncut'), headers)
  expect(await response.ended).toBe('end')
  expect(response.status).toBe(200)
  return response.messages()
}

const messageOf = (kind: EndpointKind, key: string) =>
  kind.envelope(callTool(7, 'count', { key, n: EVENTS, size: EVENT_SIZE, paced: true }, 'token'))
