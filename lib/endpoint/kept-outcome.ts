// The outcome of a call under an `Idempotency-Key`, in the form in which any instance can give it
// again when the one that ran the call is gone.
import type { Keeper, KeptValue } from '../streams/keeper.js'
import type { Outcome, RecordedAnswer, SettledCall } from './idempotent-request.js'

/** The outcomes that can be given again. */
type KeptOutcome = Exclude<Outcome, { readonly kind: 'lost' }>

interface Head {
  readonly kind: 'key'
  readonly hash?: string | undefined
  readonly outcome: Exclude<KeptOutcome, RecordedAnswer> | Omit<RecordedAnswer, 'body'>
}

const NOTHING = new Uint8Array(0)

/** @param key what the call is kept under, bound to its owner, session and path. */
export function keepOutcome(
  keeper: Keeper,
  key: string,
  { hash, outcome }: SettledCall,
  time: number
): void {
  if (outcome.kind === 'lost') return
  const { body, ...said } = outcome.kind === 'answer' ? outcome : { ...outcome, body: NOTHING }
  const head: Head = { kind: 'key', hash, outcome: said }
  keeper.keep(key, head, [body], time)
}

/** `undefined`: the value is not the outcome of a call under a key. */
export function keptOutcomeIn({
  head,
  bytes
}: KeptValue): { readonly hash: string | undefined; readonly outcome: KeptOutcome } | undefined {
  const { kind, hash, outcome } = head as Head
  if (kind !== 'key') return undefined
  if (outcome.kind === 'stream') return { hash, outcome }
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return { hash, outcome: { ...outcome, body } }
}
