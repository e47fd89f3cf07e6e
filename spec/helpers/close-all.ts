// One place where helpers leave what they have opened, so that a spec closes everything with
// `afterEach(closeAll)`.

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

/** Closes all that is open, newest first: clients before the proxies and servers they talk to. */
export async function closeAll(): Promise<void> {
  const errors: unknown[] = []
  while (open.size > 0) {
    const newest = [...open].at(-1)!
    try {
      await newest()
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'something would not close')
}
