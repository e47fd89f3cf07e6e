// `currentStream()` for a handler that works on a further round of a task. No client reads its
// stream, so no client can be disconnected or be given parts of the result.
import type { StreamState } from '../../streams/stream-types.js'
import { HandlerContext } from '../../endpoint/handler-context.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { Task } from './task.js'

export class TaskContext extends HandlerContext {
  readonly #task: Task
  readonly #signal: AbortSignal

  constructor(parts: InstanceParts, task: Task, signal: AbortSignal) {
    super(parts, parts.newId())
    this.#task = task
    this.#signal = signal
  }

  override get state(): StreamState {
    const { status } = this.#task
    return status === 'working' || status === 'input_required' ? 'live' : status
  }

  override get signal(): AbortSignal {
    return this.#signal
  }
}
