// One place where helpers leave what they have opened, so that all of it is closed after each spec.

type Close = () => unknown

const open = new Set<Close>()

/**
 * Remembers how to close something. Returns a function that closes it now, once, and forgets it.
 */
export function closeLater(close: Close): () => Promise<void> {
  let closing: Promise<void> | undefined
  const once = () => {
    open.delete(once)
    closing ??= Promise.resolve(close()).then(() => undefined)
    return closing
  }
  open.add(once)
  return once
}

export const openNow = (): ReadonlySet<unknown> => new Set(open)

/**
 * Closes all that is open but for `kept`, newest first: clients before the proxies and servers they
 * talk to.
 */
export async function closeAll(kept: ReadonlySet<unknown> = new Set()): Promise<void> {
  const errors: unknown[] = []
  const newest = () => [...open].findLast(close => !kept.has(close))
  for (let close = newest(); close !== undefined; close = newest()) {
    try {
      await close()
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'something would not close')
}
