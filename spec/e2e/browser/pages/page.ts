// What runs in the page: the official clients, as a web application bundles them. `resumableFetch`
// comes from its own bundle.

import * as v2 from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { FetchLike, ResumableFetchOptions } from '../../../../lib/client/index.js'

export type Sdk = 'v1' | 'v2'

export interface PageResult {
  text: string
  steps: number[]
}

/**
 * Calls the tool `count`, with the client that `connect` has left, and gives its steps and its
 * result.
 */
export interface Page {
  connect(url: string, sdk: Sdk, options: ResumableFetchOptions): Promise<void>
  call(key: string, args: object): Promise<PageResult>
  /** Aborts the call that was begun last. */
  abort(): void
  close(): Promise<void>
}

declare const resumableFetch: (options: ResumableFetchOptions) => FetchLike

let client: Client | v2.Client
let last = new AbortController()

const page: Page = {
  async connect(url, sdk, options) {
    const fetch = resumableFetch(options)
    if (sdk === 'v1') {
      client = new Client({ name: 'page-v1', version: '1.0.0' })
      await client.connect(
        new StreamableHTTPClientTransport(new URL(url), { fetch }) as Parameters<
          Client['connect']
        >[0]
      )
    } else {
      client = new v2.Client(
        { name: 'page-v2', version: '1.0.0' },
        { versionNegotiation: { mode: { pin: '2026-07-28' } } }
      )
      await client.connect(new v2.StreamableHTTPClientTransport(new URL(url), { fetch }))
    }
  },
  async call(key, args) {
    const steps: number[] = []
    last = new AbortController()
    const options = {
      onprogress: ({ progress }: { progress: number }) => void steps.push(progress),
      signal: last.signal
    }
    const params = { name: 'count', arguments: { key, ...args } }
    const result =
      client instanceof Client
        ? await client.callTool(params, undefined, options)
        : await client.callTool(params, options)
    const [content] = result.content as { text: string }[]
    return { text: content?.text ?? '', steps }
  },
  abort: () => last.abort(),
  close: () => client.close()
}

Object.assign(globalThis, { page })
