// Clients that call all the time, one call after the other, and note what becomes of each.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2
} from '@modelcontextprotocol/client'
import { resumableFetch } from '../../../lib/client/index.js'

export type ClientKind = 'SDK 1' | 'SDK 2' | 'resumableFetch'

interface Args {
  readonly [name: string]: unknown
  readonly key: string
  readonly time: number
  readonly asks: boolean
}

interface Connected {
  call(args: Args): Promise<string>
  close(): Promise<void>
}

export interface Outcome {
  readonly key: string
  readonly begunAt: number
  readonly endedAt: number
  /** `undefined`: it has its result. */
  readonly error: string | undefined
}

const capabilities = { elicitation: {} }
const info = { name: 'load', version: '1.0.0' }
const TIMEOUT = 60_000
/** Names each call in a header, for those who count which instance it comes to. */
const naming: typeof fetch = (input, init) => {
  const headers = new Headers(init?.headers)
  const key: unknown =
    typeof init?.body === 'string' && JSON.parse(init.body).params?.arguments?.key
  if (typeof key === 'string') headers.set('x-call', key)
  return fetch(input, { ...init, headers })
}
const textIn = (result: unknown): string =>
  (result as { content: readonly { text: string }[] }).content[0]!.text
const answer = (message: string) => ({ action: 'accept' as const, content: { key: message } })

async function connect(kind: ClientKind, url: string): Promise<Connected> {
  if (kind === 'SDK 2') {
    const client = new ClientV2(info, { capabilities })
    client.setRequestHandler('elicitation/create', ({ params }) => answer(params.message))
    await client.connect(new TransportV2(new URL(url), { fetch: naming }))
    return {
      call: async args =>
        textIn(await client.callTool({ name: 'work', arguments: args }, { timeout: TIMEOUT })),
      close: () => client.close()
    }
  }
  const client = new Client(info, { capabilities })
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => answer(params.message))
  const resumable = kind === 'resumableFetch'
  const options = { fetch: resumable ? resumableFetch({ fetch: naming, minTimeout: 100 }) : naming }
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  await client.connect(new StreamableHTTPClientTransport(new URL(url), options) as any)
  return {
    call: async args => {
      const params = { name: 'work', arguments: { ...args } }
      return textIn(await client.callTool(params, undefined, { timeout: TIMEOUT }))
    },
    close: () => client.close()
  }
}

export interface Load {
  readonly outcomes: readonly Outcome[]
  /** Calls that have no outcome yet. */
  readonly running: ReadonlyMap<string, number>
  /** Resolves when each client has the outcome of its last call. */
  stop(): Promise<void>
}

/** @param times of the calls of each client, in milliseconds, in turn; the second one asks. */
export async function load(
  url: string,
  kinds: readonly ClientKind[],
  times: readonly number[],
  mayBeginAnew: boolean
): Promise<Load> {
  const outcomes: Outcome[] = []
  const running = new Map<string, number>()
  let isOn = true
  const run = async (kind: ClientKind, n: number, first: Connected): Promise<void> => {
    let client = first
    for (let i = n; isOn; i++) {
      const key = `${kind}, client ${n}, call ${i}`
      const time = times[i % times.length]!
      const begunAt = performance.now()
      running.set(key, begunAt)
      let error: string | undefined
      try {
        const asks = i % times.length === 1
        const text = await client.call({ key, time, asks })
        if (text !== `${key} ${asks ? key : ''}`) error = `another's answer: ${text}`
      } catch (thrown) {
        const { message, cause } = thrown as Error
        error = `${message} ${String((cause as Error | undefined)?.message ?? '')}`
      }
      running.delete(key)
      outcomes.push({ key, begunAt, endedAt: performance.now(), error })
      if (error === undefined || !mayBeginAnew) continue
      await client.close()
      client = await connect(kind, url)
    }
    await client.close()
  }
  const clients = await Promise.all(kinds.map(kind => connect(kind, url)))
  const ends = kinds.map((kind, n) => run(kind, n, clients[n]!))
  return {
    outcomes,
    running,
    async stop() {
      isOn = false
      await Promise.all(ends)
    }
  }
}
