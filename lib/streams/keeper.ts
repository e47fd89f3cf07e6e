// What is left where other instances find it once this one has gone: results that nobody has
// fetched.

/** A value as it was kept: a head in JSON, and bytes. */
export interface KeptValue {
  readonly head: unknown
  readonly bytes: Uint8Array
}

export interface Keeper {
  /**
   * Keeps a value under a name that only who it is for can have. `time`: milliseconds. `false`: it
   * is too much.
   */
  keep(name: string, head: object, chunks: readonly Uint8Array[], time: number): boolean
  /** Deletes what has been kept under a name. */
  delete(name: string): void
}
