// The entry point `express-mcp-streams/tasks`: tasks for an endpoint that has none.
// So that what it shares with the middleware is built as one file: each takes heap of its own.
import '../../index.js'
import { partOf, type TasksPart } from '../../options/part.js'
import { settingsFrom } from '../../options/schema.js'
import type { FeatureCode } from '../../endpoint/feature.js'
import { Tasks } from './tasks.js'
import { OPTIONS, type TasksOptions } from './tasks-options.js'

export type { TasksPart } from '../../options/part.js'
export type { TaskPolicy, TasksOptions } from './tasks-options.js'

/**
 * Tasks (the extension `io.modelcontextprotocol/tasks`), for an endpoint that has none: a call of a
 * tool that takes long is answered with a task in the meantime, to clients that declare the
 * extension (2026-07-28). For option `tasks` of `mcpStreams`.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function tasks(options: TasksOptions = {}): TasksPart {
  const settings = settingsFrom('tasks', OPTIONS, options)
  const code: FeatureCode = (parts, limits) => new Tasks(parts, { ...settings, limits })
  return partOf('tasks', code)
}
