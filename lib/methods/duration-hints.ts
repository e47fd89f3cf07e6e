// How long tools take, in `tools/list`: the Resuming draft's duration hints.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { nanoid } from 'nanoid'
import { isObject, type Message, type RequestId } from '../core/json-rpc.js'
import type { House } from '../http/house.js'
import { sendToEndpoint } from '../http/inject.js'
import { type EndpointAnswer, readAnswer } from './endpoint-answer.js'
import { Leg } from './leg.js'
import { endpointRequest } from './token-request.js'

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
  house: House,
  { req, res, isKeyed }: { readonly req: IncomingMessage; readonly res: ServerResponse; readonly isKeyed: boolean },
  request: Message & { id: RequestId },
  hints: DurationHints,
  limit: number
): void {
  const leg = new Leg(req, res, request, { isKept: isKeyed, isAskedByHeader: false })
  const id = nanoid()
  const gone = new AbortController()
  leg.watch(
    () => gone.abort(),
    () => undefined
  )
  if (leg.isOver) return
  sendToEndpoint(req, endpointRequest(request, id), { signal: gone.signal }).then(
    response =>
      readAnswer(response, id, limit, {
        message: (message, text) => void (leg.acceptsEvents && leg.tell(message, text)),
        answered: answer => leg.answer(withHints(answer, hints))
      }),
    (error: unknown) => {
      house.debug('the endpoint did not answer: %o', error)
      leg.answer({ kind: 'fault', fault: 'endpoint-failed' })
    }
  )
}

/** The answer to `tools/list`, with the hints added to what it says. */
export function withHints(answer: EndpointAnswer, hints: DurationHints): EndpointAnswer {
  if (answer.kind !== 'response' || !isObject(answer.message.result)) return answer
  const { result } = answer.message
  const tools: unknown = result['tools']
  if (!Array.isArray(tools)) return answer
  const hinted: unknown[] = tools.map(tool => (isObject(tool) ? withHint(tool, hints) : (tool as unknown)))
  const message = { ...answer.message, result: { ...result, tools: hinted } }
  return { ...answer, text: JSON.stringify(message), message }
}

/** What the endpoint says itself is not overwritten. */
function withHint(tool: Record<string, unknown>, hints: DurationHints): Record<string, unknown> {
  const hint = typeof tool['name'] === 'string' ? hints.get(tool['name']) : undefined
  if (hint === undefined) return tool
  const meta = isObject(tool['_meta']) ? tool['_meta'] : {}
  return { ...tool, _meta: { [DURATION_HINT]: hint, ...meta } }
}
