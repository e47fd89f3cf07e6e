// For work that must not take long: the time that this process has spent, whatever else runs on the
// machine.

/** Starts now. Returns what tells how many milliseconds of a processor have been spent since. */
export function processorTime(): () => number {
  const start = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(start)
    return (user + system) / 1000
  }
}
