// Keeps results that were not fetched, where other instances find them when this one is gone.

/** A value as it was kept: a head in JSON, and bytes. */
export interface KeptValue {
  readonly head: unknown
  readonly bytes: Uint8Array
}

export interface Keeper {
  /**
   * Keeps a value under a name that only its recipient can know, for `time` milliseconds. `false`:
   * there is no room for it.
   */
  keep(name: string, head: object, chunks: readonly Uint8Array[], time: number): boolean
  /** Deletes what has been kept under a name. */
  delete(name: string): void
}
