// The official clients with `resumableFetch`, each in front of an endpoint that speaks its
// revision, behind a proxy that cuts.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { resumableFetch, type ResumableFetchOptions } from '../../../lib/client/index.js'
import type { McpStreams, McpStreamsOptions } from '../../../lib/index.js'
import { connectV1, connectV2, type ConnectedV1, type ConnectedV2 } from '../../helpers/clients.js'
import { createCutProxy, type CutProxy, type Plan } from '../../helpers/cut-proxy.js'
import {
  sdkV1Stateful,
  sdkV1Stateless,
  type SdkV1Options,
  type ToolLog
} from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import type { Handler } from '../../helpers/listen.js'
import { serve } from '../../helpers/serve.js'

type Endpoint = Handler & { log: ToolLog; sessions: Map<string, unknown> }
type Fetch = ReturnType<typeof resumableFetch>

export interface Setup {
  name: string
  /** `json`: answers by JSON where the endpoint can. */
  endpoint(options?: { json?: boolean; onContext?: SdkV1Options['onContext'] }): Endpoint
  connect(
    url: string,
    fetch: Fetch,
    more?: { headers?: Record<string, string> }
  ): Promise<ConnectedV1 | ConnectedV2>
  hasSession: boolean
}

const enable = (json: boolean | undefined) => (json === true ? { enableJsonResponse: true } : {})

export const V1_JUNE: Setup = {
  name: 'client 1.x at 2025-06-18, with a session',
  endpoint: ({ json, ...rest } = {}) => sdkV1Stateful({ ...rest, ...enable(json) }),
  connect: (url, fetch, more) => connectV1(url, { ...more, fetch, version: '2025-06-18' }),
  hasSession: true
}
export const V1: Setup = {
  ...V1_JUNE,
  name: 'client 1.x at 2025-11-25, with a session',
  connect: (url, fetch, more) => connectV1(url, { ...more, fetch })
}
export const V1_STATELESS: Setup = {
  ...V1,
  name: 'client 1.x at 2025-11-25, without a session',
  endpoint: ({ json, ...rest } = {}) => sdkV1Stateless({ ...rest, ...enable(json) }),
  hasSession: false
}
export const V2: Setup = {
  name: 'client 2.x at 2025-11-25, with a session',
  endpoint: ({ json, ...rest } = {}) => sdkV2Stateful({ ...rest, ...enable(json) }),
  connect: (url, fetch, more) => connectV2(url, { ...more, fetch, era: '2025-11-25' }),
  hasSession: true
}
export const V2_MODERN: Setup = {
  name: 'client 2.x at 2026-07-28',
  endpoint: ({ json, ...rest } = {}) =>
    sdkV2Handler({ ...rest, ...(json === true ? {} : { responseMode: 'sse' }) }),
  connect: (url, fetch, more) => connectV2(url, { ...more, fetch }),
  hasSession: false
}
export const SETUPS = [V1_JUNE, V1, V1_STATELESS, V2, V2_MODERN]

/** Impatient, and of great stamina: specs cut more often than networks do. */
export const SPEC_OPTIONS: ResumableFetchOptions = {
  minTimeout: 5,
  maxTimeout: 50,
  maxRetries: 1000
}
const SERVER_OPTIONS: McpStreamsOptions = { retry: 5, resumeInterval: { min: 0 } }

export interface Running {
  endpoint: Endpoint
  log: ToolLog
  streams: McpStreams
  proxy: CutProxy
  /** Of the endpoint, past the proxy. */
  direct: string
  /** Of the endpoint, through the proxy. */
  url: string
  fetch: Fetch
  connected: ConnectedV1 | ConnectedV2
  call(key: string, args?: object, more?: CallOptions): Promise<Called>
}

export interface RunOptions {
  client?: ResumableFetchOptions
  server?: McpStreamsOptions
  json?: boolean
  plan?: Plan
  endpoint?: Endpoint
}

/** Server, proxy, and a client that is connected before the plan begins. Closed by `closeAll`. */
export async function run(setup: Setup, options: RunOptions = {}): Promise<Running> {
  const { json = false, endpoint = setup.endpoint({ json }) } = options
  const { url: direct, streams } = await serve(endpoint, { ...SERVER_OPTIONS, ...options.server })
  const proxy = await createCutProxy({ target: Number(new URL(direct).port) })
  const fetch = resumableFetch({ ...SPEC_OPTIONS, ...options.client })
  const url = `${proxy.url}/mcp`
  const connected = await setup.connect(url, fetch)
  // The listen channel, where there is one, is open by then.
  if (setup.hasSession) await proxy.nthRequest(3)
  if (options.plan !== undefined) proxy.plan = options.plan
  const call: Running['call'] = (key, args, more) => callCount(connected, key, args, more)
  return { endpoint, log: endpoint.log, streams, proxy, direct, url, fetch, connected, call }
}

export interface CallOptions {
  signal?: AbortSignal
  timeout?: number
  tool?: string
}

export interface Called {
  text: string
  steps: number[]
}

/** Calls the tool `count`: the numbers that it reported on its way, and its result. */
export async function callCount(
  { client }: ConnectedV1 | ConnectedV2,
  key: string,
  args: object = { n: 2 },
  { tool = 'count', ...more }: CallOptions = {}
): Promise<Called> {
  const steps: number[] = []
  const options = {
    ...more,
    onprogress: ({ progress }: { progress: number }) => void steps.push(progress)
  }
  const params = { name: tool, arguments: { key, ...args } }
  const result =
    client instanceof Client
      ? await client.callTool(params, undefined, options)
      : await client.callTool(params, options)
  const [content] = result.content as { text: string }[]
  return { text: content?.text ?? '', steps }
}

/** The key of a call to `count`, as the proxy sees it. */
export const keyIn = (
  message: { params?: { arguments?: { key?: string } } } | undefined
): string | undefined => message?.params?.arguments?.key
