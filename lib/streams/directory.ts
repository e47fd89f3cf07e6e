// Finds what clients name, in one process; `backplane` has the directory of several.

import type { Record } from './record.js'
import type { Stream } from './stream.js'

/** It is in this process. */
interface Local<T> {
  readonly kind: 'local'
  readonly value: T
}

/** It is over, and this is what is remembered of it. */
export interface Ended<Left> {
  readonly kind: 'ended'
  readonly value: Left
}

/** Nothing is known under this name. */
export interface Unknown {
  readonly kind: 'unknown'
}

/** What this process has under a name. */
export type Here<T, Left = never> = Local<T> | Ended<Left> | Unknown

/** A stream that runs, or is still read; or what is left of it. */
export type FoundStream = Local<Stream> | Ended<Record>

export type Elsewhere =
  /** Another instance has it, and answers for it. */
  | { readonly kind: 'remote'; readonly instance: string }
  /** An instance had it, and is gone. */
  | { readonly kind: 'lost'; readonly instance: string }
  /** It cannot be known at the moment which instance has it. */
  | { readonly kind: 'unreachable' }

/** Where a name leads. `here`: to this process, whether or not it has anything under it. */
export type Place = { readonly kind: 'here' } | Elsewhere

export type NameKind = 'stream' | 'session' | 'token' | 'task' | 'ticket' | 'key'

/** What this process has. Synchronous, so that nothing comes between a look-up and its use. */
export interface LookUps {
  readonly stream: (id: string) => Here<Stream, Record>
  /** What a feature has. */
  readonly ticket: (id: string) => Here<unknown, unknown>
}

export interface Directory {
  readonly here: LookUps
  /**
   * Where a name leads. Not a promise if no other instance has to be asked. `leaving`: instances
   * that have handed it back.
   */
  where(kind: NameKind, name: string, leaving?: readonly string[]): Place | Promise<Place>
  /** Takes a key for this instance if no instance has it, and says which one has it then. */
  claim(key: string, owner: string): Place | Promise<Place>
  /** Answered, or asked for again: the key is remembered for a while. */
  keySettled(key: string, owner: string): void
  keyForgotten(key: string): void
  find<Kind extends keyof LookUps>(kind: Kind, name: string): Promise<FoundAs<Kind> | Elsewhere>
}

/** What the look-up of a kind returns. */
export type FoundAs<Kind extends keyof LookUps> = ReturnType<LookUps[Kind]>

export const HERE: Place = { kind: 'here' }
export const UNKNOWN: Unknown = { kind: 'unknown' }

/** The directory of one process: everything is here, and no other instance is asked. */
export class LocalDirectory implements Directory {
  readonly here: LookUps

  constructor(here: LookUps) {
    this.here = here
  }

  where(): Place {
    return HERE
  }

  claim(): Place {
    return HERE
  }

  keySettled(): void {
    // Nobody else knows of it.
  }

  keyForgotten(): void {
    // Nobody else knows of it.
  }

  find<Kind extends keyof LookUps>(kind: Kind, name: string): Promise<FoundAs<Kind>> {
    return Promise.resolve(this.here[kind](name) as FoundAs<Kind>)
  }
}

/** Whether this process has it, or remembers it. */
export function isKnown<T, Left>(
  found: Here<T, Left> | Elsewhere
): found is Local<T> | Ended<Left> {
  return found.kind === 'local' || found.kind === 'ended'
}

/** A value as it was kept: a head in JSON, and bytes. */
export interface KeptValue {
  readonly head: unknown
  readonly bytes: Uint8Array
}

export interface Keeper {
  /** Keeps a value under a secret name for `time` ms. `false`: there is no room. */
  keep(name: string, head: object, chunks: readonly Uint8Array[], time: number): boolean
  delete(name: string): void
  /** `undefined`: there is no such value, or no instance has written it. Rejects if unknown. */
  find(name: string): Promise<KeptValue | undefined>
}
