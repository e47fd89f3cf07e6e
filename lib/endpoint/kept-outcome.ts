// What became of a call under an `Idempotency-Key`, as any instance can say it again once the one
// that ran it has gone.
import type { Keeper, KeptValue } from '../streams/keeper.js'
import type { Outcome, RecordedAnswer } from './idempotent-request.js'

export interface KeptOutcome {
  /** A digest of its body. */
  readonly hash: string
  readonly outcome: Outcome
}

interface Head {
  readonly kind: 'key'
  readonly hash: string
  readonly streamId?: string
  readonly answer?: Omit<RecordedAnswer, 'body'>
}

const NOTHING = new Uint8Array(0)

/** @param key as calls are kept by it: it says whose it is. */
export function keepOutcome(
  keeper: Keeper,
  key: string,
  { hash, outcome }: KeptOutcome,
  time: number
): void {
  if (outcome.kind === 'lost') return
  const head: Head =
    outcome.kind === 'stream'
      ? { kind: 'key', hash, streamId: outcome.streamId }
      : {
          kind: 'key',
          hash,
          answer: { status: outcome.answer.status, headers: outcome.answer.headers }
        }
  const body = outcome.kind === 'answer' ? outcome.answer.body : NOTHING
  keeper.keep(key, head, [body], time)
}

/** `undefined`: it is no call under a key. */
export function keptOutcomeIn({ head, bytes }: KeptValue): KeptOutcome | undefined {
  const { kind, hash, streamId, answer } = head as Head
  if (kind !== 'key') return undefined
  if (streamId !== undefined) return { hash, outcome: { kind: 'stream', streamId } }
  if (answer === undefined) return undefined
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return { hash, outcome: { kind: 'answer', answer: { ...answer, body } } }
}
