// How long tools take, in `tools/list`: the Resuming draft's duration hints.
import { nanoid } from 'nanoid'
import { isObject, type Message, type RequestId } from '../protocol/json-rpc.js'
import { spliceJson } from '../protocol/json-splice.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { sendToEndpoint } from '../endpoint/endpoint-client.js'
import { type EndpointAnswer, readAnswer } from '../endpoint/endpoint-answer.js'
import { HttpLeg } from './http-leg.js'
import { endpointRequest, endpointText } from './token-request.js'

/** How long a call of a tool takes, in milliseconds. */
export interface DurationHint {
  /** As a rule. */
  readonly typical?: number | undefined
  /** At the most. */
  readonly max?: number | undefined
}

export type DurationHints = ReadonlyMap<string, DurationHint>

/** The member of a tool's `_meta` that holds its hint; the draft names none. */
const DURATION_HINT = 'durationHint'

/** Lets the endpoint answer `tools/list`, and adds the hints to what it says. */
export function answerToolsList(
  context: RequestContext,
  request: Message & { id: RequestId },
  hints: DurationHints,
  limit: number
): void {
  const { instance, req, text } = context
  const leg = new HttpLeg(context, request, false)
  const id = nanoid()
  const gone = new AbortController()
  leg.watch(
    () => gone.abort(),
    () => undefined
  )
  if (leg.isOver) return
  const sent = endpointRequest(request, id)
  sendToEndpoint(req, sent, { text: endpointText(text, request, sent), signal: gone.signal }).then(
    response =>
      readAnswer(response, id, limit, {
        message: (message, text) => void (leg.acceptsEvents && leg.tell(message, text)),
        answered: answer => leg.answer(withHints(answer, hints))
      }),
    (error: unknown) => {
      instance.debug('the endpoint did not answer: %o', error)
      leg.answer({ kind: 'fault', fault: 'endpoint-failed' })
    }
  )
}

/** The answer to `tools/list`, with the hints added to what it says. */
export function withHints(answer: EndpointAnswer, hints: DurationHints): EndpointAnswer {
  if (answer.kind !== 'response') return answer
  const message = hinted(answer.message, hints)
  return message === answer.message
    ? answer
    : { ...answer, text: spliceJson(answer.text, answer.message, message), message }
}

/** The same for a message: it itself where there is nothing to add to. */
export function hinted(message: Message, hints: DurationHints): Message {
  if (!isObject(message.result)) return message
  const tools: unknown = message.result['tools']
  if (!Array.isArray(tools)) return message
  const withThem: unknown[] = tools.map(tool =>
    isObject(tool) ? withHint(tool, hints) : (tool as unknown)
  )
  return { ...message, result: { ...message.result, tools: withThem } }
}

/** What the endpoint says itself is not overwritten. */
function withHint(tool: Record<string, unknown>, hints: DurationHints): Record<string, unknown> {
  const hint = typeof tool['name'] === 'string' ? hints.get(tool['name']) : undefined
  if (hint === undefined) return tool
  const meta = isObject(tool['_meta']) ? tool['_meta'] : {}
  return { ...tool, _meta: { [DURATION_HINT]: hint, ...meta } }
}
