// Waiting for what may not come.

/** Waits for something, for so many milliseconds at the most. */
export async function within(time: number, work: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<void>(resolve => (timer = setTimeout(resolve, time)))
  await Promise.race([work, late])
  clearTimeout(timer)
}
