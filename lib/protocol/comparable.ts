// Whether a JSON value is small enough to be serialised and hashed, for a comparison with others.

/** Levels of nesting that a value may have. */
const MOST_LEVELS = 100
/** Values that it may consist of: to hash so many takes milliseconds. */
const MOST_VALUES = 50_000
/** Of these, members of objects, which cost more: they may have to be sorted and copied. */
const MOST_MEMBERS = 10_000

/**
 * Whether a parsed JSON value is small enough to be serialised for a comparison. Stops as soon as a
 * limit is exceeded, so that a huge value costs no more.
 */
export function isComparable(value: unknown): boolean {
  let level: readonly unknown[] = [value]
  let values = 1
  let members = 0
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_LEVELS) return false
    const next: unknown[] = []
    for (const container of level) {
      if (typeof container !== 'object' || container === null) continue
      const keys = Array.isArray(container) ? undefined : Object.keys(container)
      const count = keys?.length ?? (container as readonly unknown[]).length
      values += count
      if (keys !== undefined) members += count
      if (values > MOST_VALUES || members > MOST_MEMBERS) return false
      const parts: readonly unknown[] = Array.isArray(container)
        ? container
        : Object.values(container)
      for (const part of parts) if (typeof part === 'object' && part !== null) next.push(part)
    }
    level = next
  }
  return true
}
