// Several instances of one service on one backplane, behind a front that gives each request to the
// next of them.
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { backplane } from '../../../lib/backplane/index.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import type { RawEndpoint } from '../endpoints/raw.js'
import { listen, type Handler } from '../listen.js'
import { serve, type Served } from '../serve.js'
import { Hub, type HubOptions, type MemoryBackplane } from './memory.js'

export interface ClusterMember extends Served {
  readonly backplane: MemoryBackplane
}

export interface Cluster {
  readonly hub: Hub
  readonly members: readonly ClusterMember[]
  /** Of the front. */
  readonly url: string
  /** Which member the next requests go to, in turn. Default: each. */
  turns: readonly number[]
}

/** Closed by `closeAll`. */
export async function cluster(
  endpoint: (index: number) => Handler | RawEndpoint,
  options: McpStreamsOptions = {},
  hubOptions: HubOptions = {},
  size = 3
): Promise<Cluster> {
  const hub = new Hub(hubOptions)
  const members: ClusterMember[] = []
  for (let i = 0; i < size; i++) {
    const end = hub.join()
    const served = await serve(endpoint(i), { ...options, backplane: backplane(end) })
    members.push({ ...served, backplane: end })
  }
  let count = 0
  const made: { turns: readonly number[] } = { turns: members.map((_, i) => i) }
  const { url } = await listen((req, res) => {
    const { turns } = made
    pass(req, res, members[turns[count++ % turns.length] as number] as ClusterMember)
  })
  return Object.assign(made, { hub, members, url: `${url}/mcp` })
}

/** As a proxy would: nothing kept, nothing known. */
export function pass(req: IncomingMessage, res: ServerResponse, { url }: { url: string }): void {
  const { origin } = new URL(url)
  const passed = request(`${origin}${req.url}`, {
    method: req.method,
    headers: req.headers,
    agent: false
  })
  passed.on('response', answer => {
    res.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
    res.flushHeaders()
    answer.pipe(res)
    answer.on('close', () => (answer.complete ? undefined : res.destroy()))
  })
  passed.on('error', () => res.destroy())
  res.on('close', () => passed.destroy())
  req.pipe(passed)
}
