// Waiting for what may not come.

/** What a promise comes to within so many milliseconds; `undefined`: nothing, so far. */
export async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T | undefined> {
  // The caller ends what it has stopped waiting for, and a failure then is no news.
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
