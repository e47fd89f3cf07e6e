// Watchers: `callTask`, above the official client, gets each state of a task from the fetch below
// the client, which follows the task.

export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** A task as its server describes it. Of the two names of a time, each revision has one. */
export interface TaskState {
  readonly taskId: string
  /** A status that tasks do not have counts as `working`. */
  readonly status: TaskStatus
  /** What the task is doing, in words. */
  readonly statusMessage?: string | undefined
  /** ISO 8601. */
  readonly createdAt?: string | undefined
  /** ISO 8601. */
  readonly lastUpdatedAt?: string | undefined
  /** Milliseconds for which the server keeps the task; `null`: no limit. At 2025-11-25. */
  readonly ttl?: number | null | undefined
  /** The same, from 2026-07-28 on. */
  readonly ttlMs?: number | null | undefined
  /** Milliseconds between polls that the server asks for. At 2025-11-25. */
  readonly pollInterval?: number | undefined
  /** The same, from 2026-07-28 on. */
  readonly pollIntervalMs?: number | undefined
  /** The result of a completed call, from 2026-07-28 on. */
  readonly result?: unknown
  /** The JSON-RPC error of a failed call, from 2026-07-28 on. */
  readonly error?: unknown
  /** The questions of a task that waits for its client, from 2026-07-28 on. */
  readonly inputRequests?: unknown
}

export type TaskWatcher = (state: TaskState) => void

// One registry for all copies of this module: an application may load one as CJS, the other as ESM.
const REGISTRY = Symbol.for('express-mcp-streams.task-watchers')
const globals = globalThis as { [REGISTRY]?: Map<string, TaskWatcher> }
const watchers = (globals[REGISTRY] ??= new Map<string, TaskWatcher>())

/** Registers a watcher. Returns its name, and a function that removes it. */
export function watchTask(watcher: TaskWatcher): { readonly name: string; stop(): void } {
  const name = crypto.randomUUID()
  watchers.set(name, watcher)
  return { name, stop: () => void watchers.delete(name) }
}

export function watcherOf(name: unknown): TaskWatcher | undefined {
  return watchers.get(name as string)
}
