// A scenario: all that chance decides of a case, drawn before it begins. It is plain data, so that
// it can be printed.

import type { McpStreamsOptions } from '../../lib/index.js'
import type { Cut } from '../helpers/cut-proxy.js'
import { REVISIONS } from '../helpers/mcp.js'
import { Random } from './random.js'

/**
 * `stock-…`: resumes at the endpoint with its last event id. `announced`: follows links, and takes
 * part in the hand-off. `keyed`: that, and repeats its POST under an `Idempotency-Key`. `fetch`:
 * `resumableFetch`. `tokens`: collects its answer with resume tokens. `draft`: resumes by
 * `stream/resume`, and asks by `stream/poll` what there is. `resumable`: `callResumable`, by the
 * official client on `resumableFetch`.
 */
export const CLIENTS = [
  'stock-2025-03-26',
  'stock-2025-06-18',
  'stock-2025-11-25',
  'announced',
  'keyed',
  'fetch',
  'tokens',
  'draft',
  'resumable'
] as const
export type ClientKind = (typeof CLIENTS)[number]

/** Whether it gets its answer by resume tokens: it may be asked and told again. */
export const collects = ({ client }: { readonly client: ClientKind }): boolean =>
  client === 'tokens' || client === 'resumable'

/** What the endpoint does, one after the other. */
export type Step =
  | { do: 'say' | 'ask'; padding: number }
  | { do: 'answer'; index: number; padding: number }
  | { do: 'comment' }
  | { do: 'wait'; ms: number }
  | { do: 'end' | 'destroy' | 'throw' }

export interface CallPlan {
  /** Names the call, and stands in all of its messages. */
  key: string
  client: ClientKind
  /** The protocol revision that it speaks. */
  version: string
  /** Milliseconds after the beginning of the case. */
  after: number
  hasSession: boolean
  owner: string | undefined
  /** Requests in its POST; more than one is a batch. */
  requests: number
  /**
   * `json`: one body. `own-ids`: events with ids of the endpoint's own. `sdk-…`: written by an official SDK.
   */
  shape: 'sse' | 'json' | 'own-ids' | 'sdk-v1' | 'sdk-v2'
  /** Whether the endpoint waits for `drain`. */
  isPolite: boolean
  lineEnd: '\n' | '\r\n' | '\r'
  /** Bytes per write; 0: each event in one. Several events may share one too. */
  writeBytes: number
  glued: boolean
  script: Step[]
  /**
   * Of the connections that carry the call or resume it, in their order. Those behind the last are
   * not cut.
   */
  cuts: (Cut | undefined)[]
  /**
   * The client has enough after so many messages: it cancels, deletes its stream, or just stays
   * away.
   */
  leaves: { after: number; how: 'cancel' | 'delete' | 'vanish' } | undefined
}

export interface Scenario {
  seed: number
  options: McpStreamsOptions
  /** Nothing is tight: every call that can be followed must succeed. */
  isCalm: boolean
  calls: CallPlan[]
}

export function drawScenario(seed: number): Scenario {
  const random = new Random(seed)
  const isCalm = random.chance(0.5)
  let options = isCalm ? calmOptions(random) : tightOptions(random)
  const calls = random.list(random.int(1, 5), index => drawCall(random, `c${index}`))
  // Only where all clients take part in the hand-off may it be forced on them.
  if (calls.some(({ client }) => /^(stock|tokens|draft|resumable)/.test(client)))
    options = { ...options, handoff: 'auto' }
  return { seed, options, isCalm, calls }
}

function commonOptions(random: Random): McpStreamsOptions {
  return {
    retry: random.int(0, 10),
    keepAlive: random.pick([null, null, 5, 20]),
    disconnectAfter: random.pick([null, null, null, 15, 60]),
    handoff: random.pick(['auto', 'auto', 'always', 'never']),
    handoffAfter: random.pick([20, 1000]),
    notifications: random.pick(['auto', 'auto', 'always']),
    primer: random.pick(['auto', 'auto', 'always', 'never']),
    resumeTokens: { after: random.pick([0, 5, 30]) }
  }
}

function calmOptions(random: Random): McpStreamsOptions {
  return { ...commonOptions(random), window: 20_000, resumeInterval: { min: 0, max: 20 } }
}

function tightOptions(random: Random): McpStreamsOptions {
  const sometimes = <T>(value: T): T | undefined => (random.chance(0.4) ? value : undefined)
  const maxBytes = sometimes(random.pick([300, 2000, 20_000]))
  return {
    ...commonOptions(random),
    window: random.pick([0, 10, 100]),
    resumeInterval: { min: 0, max: random.pick([0.05, 0.3, 0.6]) },
    maxStreams: sometimes(random.int(1, 3)),
    maxBytes,
    maxStreamBytes: sometimes(random.pick([200, 1000, 10_000])),
    maxBodyBytes: random.chance(0.1) ? 100 : undefined,
    maxUnsent: sometimes({ messages: random.int(1, 5), bytes: random.pick([200, 2000]) })
  }
}

const PADDINGS = [
  [6, 0],
  [3, 50],
  [2, 700],
  [1, 9000],
  [0.3, 90_000]
] as const

function drawCall(random: Random, key: string): CallPlan {
  const client = random.pick(CLIENTS)
  const version = client.startsWith('stock')
    ? client.slice('stock-'.length)
    : drawVersion(random, client)
  const shape = drawShape(random, version)
  const isSdk = shape.startsWith('sdk')
  const requests = !collects({ client }) && !isSdk && random.chance(0.2) ? random.int(2, 4) : 1
  const script = drawScript(random, requests, shape, client)
  return {
    key,
    client,
    version,
    after: random.int(0, 15),
    hasSession: version !== '2026-07-28' && random.chance(0.6),
    owner: random.pick([undefined, 'ann', 'bob']),
    requests,
    shape,
    isPolite: random.chance(0.7),
    // Behind a CR a reader waits for the LF that may follow: a question would wait with it.
    lineEnd: random.pick([
      '\n',
      '\n',
      '\r\n',
      script.some(step => step.do === 'ask') ? '\n' : '\r'
    ]),
    writeBytes: random.chance(0.3) ? random.int(1, 40) : 0,
    glued: random.chance(0.3),
    script,
    cuts: random.list(random.int(0, 4), () => drawCut(random)),
    leaves: random.chance(0.12)
      ? { after: random.int(0, 4), how: random.pick(['cancel', 'delete', 'vanish']) }
      : undefined
  }
}

/** The SDKs' servers of 2026-07-28 have no streams without being asked for them. */
const WITH_STREAMS = REVISIONS.filter(version => version !== '2026-07-28')

function drawVersion(random: Random, client: ClientKind): string {
  if (client === 'resumable') return '2025-11-25'
  return random.pick(client === 'draft' ? WITH_STREAMS : REVISIONS)
}

function drawShape(random: Random, version: string): CallPlan['shape'] {
  if (random.chance(0.2)) return 'json'
  const isForSdk = WITH_STREAMS.some(known => known === version)
  return random.weighted([
    [3, 'sse'],
    [1, 'own-ids'],
    [isForSdk ? 1 : 0, 'sdk-v1'],
    [isForSdk ? 1 : 0, 'sdk-v2']
  ] as const)
}

function drawScript(
  random: Random,
  requests: number,
  shape: CallPlan['shape'],
  client: ClientKind
): Step[] {
  const padding = (): number => random.weighted(PADDINGS)
  const steps = random.list(random.int(0, 8), (): Step => {
    const step = random.weighted([
      [5, 'say'],
      [1, 'comment'],
      [3, 'wait'],
      // A batch of questions has its own specs; one that asks on tokens waits for a client that
      // answers in turns.
      [shape === 'sse' && !collects({ client }) ? 0.8 : 0, 'ask']
    ] as const)
    if (step === 'wait') return { do: step, ms: random.pick([0, 1, 5, 25]) }
    return step === 'comment' ? { do: step } : { do: step, padding: padding() }
  })
  for (let index = 0; index < requests; index++) {
    steps.splice(random.int(0, steps.length), 0, { do: 'answer', index, padding: padding() })
  }
  // Nobody would stay to answer a question behind the last response.
  const last = steps.findLastIndex(step => step.do === 'answer')
  for (const step of steps.slice(last + 1)) if (step.do === 'ask') step.do = 'say'
  const ending = random.weighted([
    [12, 'end'],
    [1, 'destroy'],
    [1, 'throw']
  ] as const)
  if (ending !== 'end' || random.chance(0.05)) steps.length = random.int(0, steps.length)
  if (shape.startsWith('sdk')) return sdkScript(steps, ending === 'end')
  steps.push({ do: ending })
  return steps
}

/** A tool has nothing to say behind its result, and ends with it or by an error. */
function sdkScript(steps: Step[], hasAnswer: boolean): Step[] {
  const answer = steps.find(step => step.do === 'answer')
  const others = steps.filter(step => step !== answer)
  return answer !== undefined && hasAnswer
    ? [...others, answer, { do: 'end' }]
    : [...others, { do: 'throw' }]
}

function drawCut(random: Random): Cut | undefined {
  if (random.chance(0.15)) return undefined
  const by = random.weighted([
    [4, 'fin'],
    [4, 'rst'],
    [1, 'silence']
  ] as const)
  const bytes = random.pick([60, 600, 1200, 4000])
  return random.weighted<() => Cut>([
    [2, () => ({ by, afterEvents: random.int(0, 6) })],
    [3, () => ({ by, direction: 'response', afterBytes: random.int(0, bytes) })],
    [1, () => ({ by, direction: 'request', afterBytes: random.int(0, 700) })]
  ])()
}
