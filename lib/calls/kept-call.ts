// What is left of a call that nobody waited for: its answer, as any instance can give it once the
// one that ran it has gone.
import type { WrittenAnswer } from '../endpoint/endpoint-answer.js'
import type { Keeper, KeptValue } from '../streams/keeper.js'
import type { CallFacts } from './call-host.js'

/** What a request must have in common with the one that began the call. */
export type KeptFacts = Pick<CallFacts, 'scope' | 'method' | 'parameters'>

export interface KeptCall extends KeptFacts {
  readonly answer: WrittenAnswer
}

interface Head extends KeptFacts {
  readonly kind: 'call'
  readonly answer: object
}

/** Keeps the answer of a call under a token. */
export function keepCall(
  keeper: Keeper,
  token: string,
  { scope, method, parameters }: KeptFacts,
  answer: WrittenAnswer,
  time: number
): void {
  const { head, bytes } = packed(answer)
  const kept: Head = { kind: 'call', scope, method, parameters, answer: head }
  keeper.keep(token, kept, [bytes], time)
}

/** `undefined`: it is no call that was kept. */
export function keptCallIn({ head, bytes }: KeptValue): KeptCall | undefined {
  const { kind, answer, ...facts } = head as Head
  return kind === 'call' ? { ...facts, answer: unpacked(answer, bytes) } : undefined
}

/** An answer as JSON, and what of it need not be written as JSON again. */
function packed(answer: WrittenAnswer): { readonly head: object; readonly bytes: Uint8Array } {
  if (answer.kind === 'response') {
    const { text, ...head } = answer
    return { head, bytes: Buffer.from(text) }
  }
  const { body, ...head } = answer
  return { head, bytes: body }
}

function unpacked(head: object, bytes: Uint8Array): WrittenAnswer {
  const answer = head as WrittenAnswer
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return answer.kind === 'response'
    ? { ...answer, text: body.toString('utf8') }
    : { ...answer, body }
}
