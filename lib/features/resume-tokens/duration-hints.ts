// Duration hints (Resuming draft): how long calls of a tool take, in the result of `tools/list`.
import type { RequestContext } from '../../endpoint/request-context.js'
import { rewriteAnswer } from '../../http/rewrite-answer.js'
import { isComparable } from '../../protocol/json-bounds.js'
import { metaOf } from '../../protocol/envelope.js'
import { isObject, type Message } from '../../protocol/json-rpc.js'

/** How long calls of a tool take, in milliseconds. */
export interface DurationHint {
  /** How long a call usually takes. */
  readonly typical?: number | undefined
  /** How long a call takes at the most. */
  readonly max?: number | undefined
}

export type DurationHints = ReadonlyMap<string, DurationHint>

/** The member of a tool's `_meta` that holds its hint; the draft names none. */
const DURATION_HINT = 'durationHint'

/** @param limit bytes: no hints are added to a longer answer. */
export function addHints(
  { req, res, soleRequest: request }: RequestContext,
  hints: DurationHints,
  limit: number
): void {
  if (request?.method !== 'tools/list') return
  if (!isComparable(request.params)) return
  // An answer that the endpoint has compressed could not be read.
  delete req.headers['accept-encoding']
  rewriteAnswer(res, { limit, rewrite: answer => hinted(answer, hints) })
}

/** A list of tools with their hints. */
export function hinted(message: Message, hints: DurationHints): Message {
  return withTools(message, tool => withHint(tool, hints))
}

/** A hint that the endpoint gives itself is not overwritten. */
function withHint(tool: Record<string, unknown>, hints: DurationHints): Record<string, unknown> {
  const hint = typeof tool['name'] === 'string' ? hints.get(tool['name']) : undefined
  if (hint === undefined) return tool
  const meta = metaOf(tool)
  if (Object.hasOwn(meta, DURATION_HINT)) return tool
  return { ...tool, _meta: { [DURATION_HINT]: hint, ...meta } }
}

type Tool = Record<string, unknown>

/** A message with its tools changed. */
export function withTools(message: Message, change: (tool: Tool) => Tool): Message {
  const { result } = message
  if (!isObject(result) || !Array.isArray(result['tools'])) return message
  const tools = result['tools'].map((tool: unknown) => (isObject(tool) ? change(tool) : tool))
  return { ...message, result: { ...result, tools } }
}
