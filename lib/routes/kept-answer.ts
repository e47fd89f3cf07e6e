// Answers a POST about a call whose instance has gone by what was kept of the call. Only its client
// gets that; for others it is as if the call had never been.
import type { InstanceLink } from '../backplane/instance-link.js'
import { keptCallIn } from '../calls/kept-call.js'
import { keptTaskIn } from '../calls/tasks/kept-task.js'
import { CallRun } from '../endpoint/call-run.js'
import { refusalOfKey } from '../endpoint/idempotency.js'
import type { Keyed } from '../endpoint/idempotent-request.js'
import { keptOutcomeIn } from '../endpoint/kept-outcome.js'
import { repeatAnswer } from '../endpoint/recorded-answer.js'
import { canAnswer } from '../endpoint/reply.js'
import { isStreamMethod } from '../protocol/stream-messages.js'
import type { Answer, Context } from './route.js'
import { giveSaved, mayHave } from './saved-result.js'
import { answerStreamMethod } from './stream-methods.js'

type Kept = Pick<InstanceLink, 'kept' | 'results'>

/** By the id of a stream, a token or a task in the message. `undefined`: nothing was kept. */
export async function answerKept(
  context: Context,
  { kept, results }: Kept,
  id: string
): Promise<Answer | undefined> {
  const { instance, messages, isBatch, res } = context
  const [message] = messages
  if (isBatch || message === undefined) return undefined
  if (isStreamMethod(message)) {
    const saved = await results.find(id)
    const isTheirs = saved !== undefined && mayHave(context, saved, 'stream url')
    return isTheirs ? () => answerStreamMethod(context, saved) : undefined
  }
  const value = await kept.find(id)
  if (value === undefined || !canAnswer(res)) return undefined
  const scope = context.scopeOf()
  const call = keptCallIn(value)
  const { tokens, tasks } = instance
  if (call?.scope === scope)
    return tokens && (() => tokens.answerKept(context, call, new CallRun(context).reply))
  const task = keptTaskIn(value)
  return task?.scope === scope ? tasks?.answerAbout(context, task) : undefined
}

/** By the key of a call, which includes its owner. */
export async function answerKeptCall(
  context: Context,
  { kept, results }: Kept,
  keyed: Keyed
): Promise<Answer | undefined> {
  const { res } = context
  const value = await kept.find(keyed.key)
  const call = value && keptOutcomeIn(value)
  if (call === undefined) return undefined
  const refusal = refusalOfKey(res, call, keyed)
  if (refusal !== undefined) return refusal
  const { outcome } = call
  if (outcome.kind === 'answer') return () => repeatAnswer(context, outcome)
  const saved = await results.find(outcome.streamId)
  // From the start, as at the instance that had the call, whatever else the request names.
  const isTheirs = saved !== undefined && mayHave(context, saved, 'endpoint')
  return isTheirs ? giveSaved(context, saved, 0) : undefined
}
