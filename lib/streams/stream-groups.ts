// Streams that have something in common, by its name.
import type { Stream } from './stream.js'

export class StreamGroups {
  readonly #groups = new Map<string, Set<Stream>>()

  add(name: string, stream: Stream): void {
    const group = this.#groups.get(name)
    if (group === undefined) this.#groups.set(name, new Set([stream]))
    else group.add(stream)
  }

  /** With its last stream, a group goes. */
  delete(name: string, stream: Stream): void {
    const group = this.#groups.get(name)
    group?.delete(stream)
    if (group?.size === 0) this.#groups.delete(name)
  }

  of(name: string): readonly Stream[] {
    return [...(this.#groups.get(name) ?? [])]
  }
}
