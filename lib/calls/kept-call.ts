// What is left of a call that nobody waited for: its answer, as any instance can give it once the
// one that ran it has gone.
import type { WrittenAnswer } from '../endpoint/endpoint-answer.js'
import type { Keeper, KeptValue } from '../streams/keeper.js'
import type { CallFacts } from './call-host.js'
import type { CallAnswer } from './call-reply.js'

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

const NOTHING = new Uint8Array(0)

/** An answer as JSON, and what of it need not be written as JSON again. */
function packed(answer: WrittenAnswer): {
  readonly head: object
  readonly bytes: Uint8Array
} {
  switch (answer.kind) {
    case 'response': {
      const { text, ...head } = answer
      return { head, bytes: Buffer.from(text) }
    }
    case 'relay': {
      const { body, ...head } = answer
      return { head, bytes: body }
    }
    case 'fault':
      return { head: answer, bytes: NOTHING }
  }
}

function unpacked(head: object, bytes: Uint8Array): WrittenAnswer {
  const answer = head as WrittenAnswer
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  switch (answer.kind) {
    case 'response':
      return { ...answer, text: body.toString('utf8') }
    case 'relay':
      return { ...answer, body }
    case 'fault':
      return answer
  }
}

/** An answer that says how the call has ended; `undefined`: it has not, or is not kept. */
export function isFinal(answer: CallAnswer | undefined): answer is WrittenAnswer {
  return answer !== undefined && answer.kind !== 'interim'
}
