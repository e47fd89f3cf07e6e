// Watchers: `callTask`, above the official client, gets each state of a task from the fetch below
// the client, which follows the task.

/** A task as its server describes it. */
export interface TaskState {
  readonly taskId: string
  /** `working`, `input_required`, `completed`, `failed` or `cancelled`. */
  readonly status: string
  /** What the task is doing, in words. */
  readonly statusMessage?: string | undefined
  readonly [member: string]: unknown
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
