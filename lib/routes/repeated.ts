// A POST that repeats an `Idempotency-Key` gets the response of the first, from any instance.
import { label } from '../protocol/event-id.js'
import { isKnown } from '../streams/directory.js'
import { keyedBy, refusalOfKey } from '../endpoint/idempotency.js'
import type { IdempotentRequest, Keyed, KeyedOutcome } from '../endpoint/idempotent-request.js'
import { repeatAnswer } from '../endpoint/recorded-answer.js'
import { refuseAndCount } from '../endpoint/refusals.js'
import { canAnswer, guarded, refuse } from '../http/reply.js'
import { elsewhereByKey } from './elsewhere.js'
import { followTurn } from './resume.js'
import { reportEvicted } from './tell-gone.js'
import type { Answer, Context, Route } from './route.js'

export const repeated: Route = context => {
  const keyed = keyedBy(context)
  if (keyed === undefined) return undefined
  const elsewhere = elsewhereByKey(context, keyed.key)
  if (elsewhere === undefined) return repeatedHere(context, keyed)
  return elsewhere.then(answer => answer ?? repeatedHere(context, keyed))
}

function repeatedHere(context: Context, keyed: Keyed): Answer | undefined {
  const { instance, res, owner } = context
  const { idempotency, directory, isClosing } = instance
  const earlier = directory.here.key(keyed.key)
  if (earlier.kind === 'unknown') {
    if (!isClosing)
      context.keyed = idempotency.begin({
        ...keyed,
        owner,
        requestIds: () => context.learnParsed().requestIds
      })
    return undefined
  }
  // It is answered here, so the endpoint's own check of the origin does not run.
  if (context.isForeign) return () => refuseAndCount(context, 403, 'foreign-origin')
  const refusal = refusalOfKey(res, earlier.value, keyed)
  if (refusal !== undefined) return refusal
  return async () => {
    instance.debug('POST sent again under its key: nothing runs twice')
    instance.count('repeated', undefined)
    // The time for which the answer is kept begins again, here and at all other instances.
    if (earlier.kind === 'ended') directory.keySettled(keyed.key, owner)
    const outcome =
      earlier.kind === 'ended' ? earlier.value.outcome : await outcomeOf(earlier.value, context)
    return answerAs(context, outcome)
  }
}

/** Waits for the outcome of the first POST, without keeping the body of this one meanwhile. */
function outcomeOf(call: IdempotentRequest, context: Context): Promise<KeyedOutcome> {
  context.dropBody()
  context.req.resume()
  return new Promise(resolve => call.join(context.res, resolve))
}

function answerAs(context: Context, outcome: KeyedOutcome): unknown {
  const { res } = context
  switch (outcome.kind) {
    case 'stream':
      return attachAgain(context, outcome.streamId)
    case 'answer':
      return guarded(res, () => repeatAnswer(context, outcome))
    case 'lost':
      return guarded(res, () => refuse(res, 409, 'answer-lost'))
  }
}

async function attachAgain(context: Context, streamId: string): Promise<void> {
  const { instance, res } = context
  const found = await instance.directory.find('stream', streamId)
  if (!canAnswer(res)) return
  // [MCP] Not 404, which would tell the client that its session has ended.
  if (!isKnown(found)) return refuse(res, 409, 'answer-lost')
  instance.debug('stream %s: its call was sent again', label(found.value))
  if (found.kind === 'local' && found.value.log.first === 1)
    followTurn(context, found.value, 0, { id: streamId, start: 0 })
  else reportEvicted(context, found, 0)
}
