// An endpoint with a session whose client has declared `resourceStreaming`, and requests for its
// resources.

import { jest } from '@jest/globals'
import type { RequestHandler } from 'express'
import { createHash } from 'node:crypto'
import type { McpStreamsOptions } from '../../../lib/index.js'
import {
  type OpenResource,
  resources,
  type ResourcesOptions
} from '../../../lib/resources/index.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { headersFor, initializeSession, post, request } from '../../helpers/mcp.js'
import { openStream, type Json, type OpenStream } from '../../helpers/open-stream.js'
import { serve, type Served } from '../../helpers/serve.js'

export const VERSION = '2025-11-25'
export const DECLARED = { resourceStreaming: {} }

export interface ResourceServer extends Served {
  endpoint: RawEndpoint
  /** Of a client that takes bytes, in a session where it has said so. */
  headers: Record<string, string>
  /** What `onError` was told. */
  errors: Error[]
  /** Asks for a resource. */
  ask(uri: string, headers?: Record<string, string>): Promise<OpenStream>
}

export interface SetupOptions {
  /** What the client declares. Default: `resourceStreaming` without a limit. */
  capabilities?: object
  /** Default: ping and all else are answered with an empty result. */
  script?: (call: RawCall) => unknown
  inFront?: RequestHandler[]
  auth?: string
  options?: McpStreamsOptions
}

/** Answers a request in JSON. */
export function answerJson({ message, res }: RawCall, result: unknown = {}): void {
  res.setHeader('Content-Type', 'application/json')
  res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }))
}

export async function serveResources(
  provider: ResourcesOptions | OpenResource,
  { capabilities = DECLARED, script = answerJson, inFront, auth, options }: SetupOptions = {}
): Promise<ResourceServer> {
  const endpoint = rawEndpoint(script, { session: 's1', initializeAs: 'json' })
  const errors: Error[] = []
  const served = await serve(
    endpoint,
    {
      resources: resources(typeof provider === 'function' ? { open: provider } : provider),
      onError: error => errors.push(error),
      ...options
    },
    inFront
  )
  const session = await initializeSession(served.url, VERSION, headersFor({ auth }), capabilities)
  const headers = { ...session.headers, accept: 'application/json, text/event-stream, */*' }
  const ask = (uri: string, more: Record<string, string> = {}) =>
    post(served.url, request(1, 'resources/stream', { uri }), { ...headers, ...more })
  return { ...served, endpoint, headers, errors, ask }
}

/** The answer, with its body whole. */
export async function whole(response: OpenStream | Promise<OpenStream>): Promise<OpenStream> {
  const answer = await response
  await answer.ended
  return answer
}

/** The JSON-RPC error that a request was answered with, in a response of this status. */
export async function errorOf(
  response: OpenStream | Promise<OpenStream>,
  status = 200
): Promise<Json> {
  const answer = await whole(response)
  if (answer.status !== status || answer.headers['content-type'] !== 'application/json')
    throw new Error(
      `no JSON with ${status}: ${answer.status} ${answer.headers['content-type']} ${answer.text}`
    )
  return JSON.parse(answer.text).error
}

/** Fetches with GET, or with HEAD. */
export const fetchUrl = (
  url: string,
  headers: Record<string, string> = {},
  method = 'GET'
): Promise<OpenStream> => openStream(url, { method, headers: { accept: '*/*', ...headers } })

const realNow = performance.now.bind(performance)

/** Until the end of the spec, it is so many milliseconds later than it is. */
export function later(ms: number): void {
  jest.spyOn(performance, 'now').mockImplementation(() => realNow() + ms)
}

/** Bytes that differ wherever they are cut. */
export function testBytes(size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size)
  for (let i = 0; i < size; i++) bytes[i] = (i * 31 + (i >> 8) * 17 + (i >> 16)) & 255
  return bytes
}

export const sha256 = (bytes: Uint8Array): string =>
  createHash('sha256').update(bytes).digest('hex')
