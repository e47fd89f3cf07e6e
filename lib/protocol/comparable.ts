// Which JSON values are compared with others, by a digest of what they are when written again.

/** Levels that a value may have. */
const MOST_LEVELS = 100
/** Values that it may consist of: of so many, a digest takes milliseconds. */
const MOST_VALUES = 50_000

/**
 * Whether a parsed JSON value is small enough to be written again for a comparison. It stops at
 * what is one too many.
 */
export function isComparable(value: unknown): boolean {
  let level: readonly unknown[] = [value]
  let count = 1
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_LEVELS) return false
    const next: unknown[] = []
    for (const container of level) {
      if (typeof container !== 'object' || container === null) continue
      if (Array.isArray(container) && container.length > MOST_VALUES) return false
      const values: readonly unknown[] = Array.isArray(container)
        ? container
        : Object.values(container)
      count += values.length
      if (count > MOST_VALUES) return false
      for (const part of values) if (typeof part === 'object' && part !== null) next.push(part)
    }
    level = next
  }
  return true
}
