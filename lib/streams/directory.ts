// Where what clients name is found: streams, sessions, keys, tokens, tasks and download URLs. The
// directory of one process is here; that of several instances is a backplane's.

/** It is in this process. */
export interface Local<T> {
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

export type Elsewhere =
  /** Another instance has it, and answers for it. */
  | { readonly kind: 'remote'; readonly instance: string }
  /** An instance had it that is gone. */
  | { readonly kind: 'lost'; readonly instance: string }
  /** Who has it cannot be known at the moment. */
  | { readonly kind: 'unreachable' }

/** Where a name leads. `here`: to this process, whether or not it has anything under it. */
export type Place = { readonly kind: 'here' } | Elsewhere

/** What may be named. */
export type NameKind = 'stream' | 'session' | 'token' | 'task' | 'ticket' | 'key'

/** What this process has, by kind: each is asked by name, and answers at once. */
export type Shelves<S> = { readonly [K in keyof S]: (name: string) => Here<unknown, unknown> }

export interface Directory<S> {
  /** What this process has: for what must not be begun twice, as nothing can come between. */
  readonly here: S
  /** Where a name leads: at once, wherever nobody has to be asked. */
  where(kind: NameKind, name: string): Place | Promise<Place>
  /** Takes a key for this instance, if nobody has it, and says who has it then. */
  claim(key: string, owner: string): Place | Promise<Place>
  /**
   * The call under a key of this instance has been answered, or its answer asked for again: it is
   * remembered for a while from now on.
   */
  keySettled(key: string, owner: string): void
  /** It has not begun: the next request that names it begins it. */
  keyForgotten(key: string): void
  /** What a name stands for. */
  find<K extends keyof S & NameKind>(kind: K, name: string): Promise<FoundIn<S, K> | Elsewhere>
}

/** What the shelf of a kind may say. */
export type FoundIn<S, K extends keyof S> = S[K] extends (name: string) => infer H ? H : never

export const HERE: Place = { kind: 'here' }
export const UNKNOWN: Unknown = { kind: 'unknown' }

/** Of one process: nothing is anywhere else, and nobody is asked. */
export class LocalDirectory<S extends Shelves<S>> implements Directory<S> {
  readonly here: S

  constructor(here: S) {
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

  find<K extends keyof S & NameKind>(kind: K, name: string): Promise<FoundIn<S, K>> {
    return Promise.resolve(this.here[kind](name) as FoundIn<S, K>)
  }
}

/** Whether this process has it, or remembers it. */
export function isKnown<T, Left>(
  found: Here<T, Left> | Elsewhere
): found is Local<T> | Ended<Left> {
  return found.kind === 'local' || found.kind === 'ended'
}
