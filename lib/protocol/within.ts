// A time limit for a promise.

/** The value of a promise; `undefined` if it has not settled within so many milliseconds. */
export async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T | undefined> {
  // A rejection after the time limit must not become an unhandled one.
  promise.catch(() => undefined)
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<undefined>(resolve => {
    timer = setTimeout(() => resolve(undefined), milliseconds)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
