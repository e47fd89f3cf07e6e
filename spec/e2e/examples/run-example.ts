// Runs an example as its reader does: in a process of its own, to its end.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../..', import.meta.url))
/** What Jest has been started with is not for the examples. */
export const environment = { ...process.env, NODE_OPTIONS: '' }

export interface Run {
  code: number | null
  /** What has ended it, where that was a signal. */
  signal: string | null
  stdout: string
  stderr: string
}

export interface RunOptions {
  args?: readonly string[]
  /** A module that is imported first, as text. */
  preload?: string
  /** What is typed. */
  input?: string
  /** Added to the environment. */
  env?: Record<string, string>
}

// Examples wait for proxies and for people. On a busy machine their own work takes long besides.
const PATIENCE = 500_000

/** @param file below `examples`. */
export function runExample(
  file: string,
  { args = [], preload = '', input = '', env = {} }: RunOptions = {}
): Promise<Run> {
  const imports = ['--import', `data:text/javascript,${encodeURIComponent(preload)}`]
  return new Promise(resolve => {
    const child = execFile(
      process.execPath,
      [...imports, `examples/${file}`, ...args],
      { cwd: root, timeout: PATIENCE, env: { ...environment, ...env } },
      (_, stdout, stderr) =>
        resolve({ code: child.exitCode, signal: child.signalCode, stdout, stderr })
    )
    child.stdin!.end(input)
  })
}
