// `currentStream()` for a handler whose call may become a task.
import { partialText } from '../../endpoint/handler-context.js'
import { CallContext } from '../call-context.js'

export class TaskContext extends CallContext {
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
