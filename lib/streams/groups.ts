// Sets of members, found by the name that each set has in common; and names that owners choose.

/** A name within what one owner has: a session, or a path. */
export function keyOf(owner: string, name: string): string {
  return JSON.stringify([owner, name])
}

export class Groups<T> {
  readonly #groups = new Map<string, Set<T>>()

  add(name: string, member: T): void {
    const group = this.#groups.get(name)
    if (group === undefined) this.#groups.set(name, new Set([member]))
    else group.add(member)
  }

  delete(name: string, member: T): void {
    const group = this.#groups.get(name)
    group?.delete(member)
    if (group?.size === 0) this.#groups.delete(name)
  }

  /** In the order in which they were added. */
  of(name: string): readonly T[] {
    return [...(this.#groups.get(name) ?? [])]
  }
}
