// What the clients have in common: the messages of a call, its session, and responses that may be
// cut or fall silent.

import { isMessage } from '../helpers/blocks.js'
import { callTool, headersFor, initialize } from '../helpers/mcp.js'
import {
  NoResponseError,
  openStream,
  type Ending,
  type Json,
  type OpenStream,
  type OpenStreamOptions
} from '../helpers/open-stream.js'
import { requestId, Violation, type Inbox } from './oracle.js'
import type { CallPlan, Scenario } from './scenario.js'

/**
 * How a call ended for its client. `lost`: it could not be followed; `bare`: it was left alone by
 * the middleware.
 */
export type End = 'complete' | 'error' | 'lost' | 'bare' | 'left'

export interface ClientContext {
  plan: CallPlan
  scenario: Scenario
  /** Of the endpoint, through the proxy, and past it. */
  url: string
  direct: string
  inbox: Inbox
  log(line: string): void
}

/** Names the call to the proxy, which plans its cuts. */
export const CALL_HEADER = 'x-fuzz-call'
/** Milliseconds of silence after which a wire counts as lost. */
export const PATIENCE = 300
/** No call needs as many requests. */
export const MOST_REQUESTS = 150

export function bodyOf(plan: CallPlan): Json {
  const requests = Array.from({ length: plan.requests }, (_, index) =>
    callTool(requestId(plan, index), 'play', { key: plan.key })
  )
  return plan.requests === 1 ? requests[0] : requests
}

export function answerTo(id: string): Json {
  return { jsonrpc: '2.0', id, result: /^c\d/.test(id) ? { action: 'decline' } : {} }
}

export function headersOf({ version, owner, key, hasSession }: CallPlan): Record<string, string> {
  const headers = headersFor({
    version,
    auth: owner,
    session: hasSession ? `session-${key}` : undefined
  })
  return {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    ...headers
  }
}

export function initializeBody({ version, key, hasSession }: CallPlan): Json {
  const message = initialize(version)
  return {
    ...message,
    params: { ...message.params, ...(hasSession && { session: `session-${key}` }) }
  }
}

/** The head of a response, or undefined if the wire breaks or falls silent before it is there. */
export async function tryOpen(
  url: string,
  options: OpenStreamOptions
): Promise<OpenStream | undefined> {
  const opening = openStream(url, options).catch((error: unknown) => {
    if (error instanceof NoResponseError) return undefined
    throw error
  })
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<'silence'>(
    resolve => (timer = setTimeout(resolve, PATIENCE * 4, 'silence'))
  )
  const opened = await Promise.race([opening, silence])
  clearTimeout(timer)
  if (opened !== 'silence') return opened
  void opening.then(stream => stream?.destroy())
  return undefined
}

/**
 * Hands on each block, until the response ends or falls silent, or `onBlock` says that it is
 * enough.
 */
export async function readBlocks(
  stream: OpenStream,
  isSilenceLoss: boolean,
  onBlock: (message: Json, id: string | undefined, retry: number | undefined) => boolean
): Promise<void> {
  const timer = isSilenceLoss ? setTimeout(() => stream.destroy(), PATIENCE) : undefined
  stream.response.on('data', () => timer?.refresh())
  try {
    for (;;) {
      const block = await stream.next().catch(() => undefined)
      if (block === undefined) return
      const message = isMessage(block) ? JSON.parse(block.data!) : undefined
      if (onBlock(message, block.id, block.retry)) return
    }
  } finally {
    clearTimeout(timer)
    stream.destroy()
  }
}

/**
 * The messages of a JSON body, or undefined if the wire breaks or falls silent before it is whole.
 */
export async function readWhole(stream: OpenStream): Promise<Json[] | undefined> {
  return (await untilEnd(stream)) === 'end' ? [JSON.parse(stream.text)].flat() : undefined
}

function untilEnd(stream: OpenStream): Promise<Ending> {
  const timer = setTimeout(() => stream.destroy(), PATIENCE * 4)
  stream.response.on('data', () => timer.refresh())
  return stream.ended.finally(() => clearTimeout(timer))
}

export const isEventStream = ({ headers }: OpenStream): boolean =>
  headers['content-type']?.startsWith('text/event-stream') === true

export const mayFallSilent = ({ cuts }: CallPlan): boolean =>
  cuts.some(cut => cut?.by === 'silence')

/** The events of a stream that its client can come back to. */
export const isStreamed = ({ shape }: CallPlan): boolean => shape === 'sse' || /^sdk/.test(shape)

/** The reason in an error body of ours, or the bare status. */
export async function reasonOf(stream: OpenStream): Promise<string> {
  await untilEnd(stream)
  if (stream.status === 400) throw new Violation(`400: ${stream.text}`)
  try {
    return `${stream.status} ${JSON.parse(stream.text).error.data.reason}`
  } catch {
    return String(stream.status)
  }
}
