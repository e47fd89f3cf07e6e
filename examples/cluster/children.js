// Processes of ours: none of them is left behind, however this one ends.

import { spawn } from 'node:child_process'

export function spawnChild(program, args, options) {
  const child = spawn(program, args, options)
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  child.once('exit', () => process.off('exit', end))
  return child
}

/** A signal ends this process, as it would without us, and so its children. */
export function exitOnSignals() {
  process.once('SIGINT', () => process.exit(130))
  process.once('SIGTERM', () => process.exit(143))
}
