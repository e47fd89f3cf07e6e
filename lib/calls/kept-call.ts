// The answer of a call, kept for other instances: any of them can give it once the instance that
// ran the call has gone.
import type { WrittenAnswer } from '../endpoint/endpoint-answer.js'
import type { Keeper, KeptValue } from '../streams/keeper.js'
import type { CallFacts } from './call-host.js'
import { decodeAnswer, encodeAnswer } from './call-log.js'

/** What a request must have in common with the one that began the call. */
type KeptFacts = Pick<CallFacts, 'scope' | 'method' | 'parameters'>

export interface KeptCall extends KeptFacts {
  readonly answer: WrittenAnswer
}

interface Head extends KeptFacts {
  readonly kind: 'call'
}

/** Keeps the answer of a call under a token, for `time` milliseconds. */
export function keepCall(
  keeper: Keeper,
  token: string,
  { scope, method, parameters }: KeptFacts,
  answer: WrittenAnswer,
  time: number
): void {
  const head: Head = { kind: 'call', scope, method, parameters }
  keeper.keep(token, head, [encodeAnswer(answer)], time)
}

/** The call in a kept value; `undefined` if the value is something else. */
export function keptCallIn({ head, bytes }: KeptValue): KeptCall | undefined {
  const { kind, ...facts } = head as Head
  const answer = kind === 'call' ? decodeAnswer(bytes) : undefined
  return answer && { ...facts, answer }
}
