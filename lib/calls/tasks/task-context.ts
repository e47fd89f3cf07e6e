// `currentStream()` for a handler that works on a task's further rounds: there is no stream to a
// client behind it.
import type { StreamState } from '../../streams/stream-types.js'
import { HandlerContext, partialText } from '../../endpoint/handler-context.js'
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

  /** Nobody waits on a connection that could be ended for it to come back. */
  override disconnect(): void {
    // A client looks in on its task when it will.
  }

  /** A task has one result, which is whole. */
  override partial(result: object): boolean {
    partialText(result)
    return false
  }
}
