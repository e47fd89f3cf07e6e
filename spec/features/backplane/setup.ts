// Three instances with hand-written endpoints, and a call at the first of them.

import type { McpStreamsOptions } from '../../../lib/index.js'
import { cluster, type Cluster } from '../../helpers/backplane/cluster.js'
import type { HubOptions } from '../../helpers/backplane/memory.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, headersFor, notification, post } from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'

export const VERSION = '2025-11-25'
export const note = (text: string) => notification('notifications/message', { data: text })
export const gist = (stream: OpenStream): Json[] =>
  stream.messages().map(({ id, params }) => id ?? params.data)
export const lastId = (stream: OpenStream): string =>
  stream.blocks.findLast(({ id }) => id !== undefined)!.id!

export interface Anywhere extends Cluster {
  readonly endpoints: readonly RawEndpoint[]
  /** Of each member. */
  readonly urls: readonly string[]
  /** A call at the first member, and the endpoint's side of it. */
  call(headers?: object): Promise<{ first: OpenStream; call: RawCall; link: string }>
}

export async function anywhere(
  options: McpStreamsOptions = {},
  hubOptions: HubOptions = {}
): Promise<Anywhere> {
  const endpoints = [0, 1, 2].map(() =>
    rawEndpoint(({ message, result }) => message?.method === 'ping' && result(), {
      stateless: true
    })
  )
  const made = await cluster(i => endpoints[i] as RawEndpoint, options, hubOptions)
  const urls = made.members.map(({ url }) => url)
  return Object.assign(made, {
    endpoints,
    urls,
    async call(headers: object = {}) {
      const opened = post(urls[0] as string, callTool(1, 'any'), {
        ...headersFor({ version: VERSION }),
        ...headers
      })
      const call = await (endpoints[0] as RawEndpoint).calls.nth(1)
      call.open()
      const first = await opened
      return { first, call, link: streamUrl(first, urls[0] as string) }
    }
  })
}

/** The same URL, at another member. */
export const at = (url: string, { urls }: Anywhere, i: number): string =>
  new URL(new URL(url).search, urls[i]).href
