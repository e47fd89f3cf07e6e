// All tasks of this process. None is evicted: an owner with too many gets no more.
import { Groups } from '../../streams/groups.js'
import { Budget, timesTheRest } from '../../streams/budget.js'
import { Sweep, sweepPeriod } from '../../streams/timer.js'
import { WhenIdle } from '../../streams/when-idle.js'
import type { Keeper } from '../../streams/directory.js'
import { keepTask, type Task, type TaskFacts, type TaskKeeper } from './task.js'
import type { TasksSettings } from './tasks-options.js'

/** An owner may have so many times the room that is left for the others: alone, it gets 8/9. */
const FACTOR = 8

export class TaskStore implements TaskKeeper {
  readonly maxTaskBytes: number
  readonly maxBytes: number
  readonly #keeper: Keeper | undefined
  readonly #tasks = new Map<string, Task>()
  /** By owner and session, so that one client's request looks at no tasks of others. */
  readonly #byClient = new Groups<Task>()
  readonly #running = new Set<Task>()
  readonly #places: Budget
  readonly #bytes: Budget
  readonly #sweep: Sweep
  readonly #idle = new WhenIdle(() => [...this.#running].every(task => task.isWaitingForInput))

  readonly newId: () => string

  /** @param keeper where other instances find tasks that have ended; `undefined`: nowhere. */
  constructor(
    { maxPerOwner, ttl, limits }: TasksSettings,
    newId: () => string,
    keeper: Keeper | undefined
  ) {
    this.newId = newId
    this.#keeper = keeper
    this.maxTaskBytes = limits.maxEntryBytes
    this.maxBytes = limits.maxBytes
    const most = timesTheRest(FACTOR)
    this.#places = new Budget(limits.maxEntries, {
      mostOfOwner: (left, owner) => Math.min(maxPerOwner, most(left, owner))
    })
    this.#bytes = new Budget(limits.maxBytes, { mostOfOwner: most })
    this.#sweep = new Sweep(sweepPeriod(ttl.default), () => this.#expire())
  }

  counts(): { readonly tasks: number; readonly bytes: number } {
    return { tasks: this.#places.used, bytes: this.#bytes.used }
  }

  /** `false`: there is no room for one more task of its owner, or for so many bytes. */
  add(task: Task, bytes: number): boolean {
    const { owner } = task.facts
    if (!this.#places.has(owner, 1) || !task.grow(bytes)) return false
    this.#places.hold(owner, 1)
    this.#running.add(task)
    this.#tasks.set(task.id, task)
    this.#byClient.add(clientOf(task.facts), task)
    this.#sweep.start()
    return true
  }

  /** A client's task; `undefined`: there is none, or it is another client's. */
  find(id: string | undefined, scope: string): Task | undefined {
    const task = this.#tasks.get(id ?? '')
    if (task === undefined || task.facts.scope !== scope) return undefined
    if (!task.isOver) return task
    this.#drop(task)
    return undefined
  }

  /** The tasks that one owner has in a session, or without one; the oldest first. */
  listFor(sessionId: string | undefined, owner: string): Task[] {
    return this.#byClient.of(clientOf({ sessionId, owner })).filter(({ isOver }) => !isOver)
  }

  /** `false`: there is no room for more bytes of this owner. */
  resize(bytes: number, owner: string): boolean {
    if (bytes > 0) return this.#bytes.hold(owner, bytes)
    if (bytes < 0) this.#bytes.release(owner, -bytes)
    return true
  }

  ended(task: Task): void {
    this.#running.delete(task)
    this.#idle.check()
    if (this.#keeper !== undefined && this.#tasks.has(task.id)) keepTask(this.#keeper, task)
  }

  changed(): void {
    this.#idle.check()
  }

  forget(task: Task): void {
    const { isEnded } = task
    this.#drop(task)
    if (isEnded) this.#keeper?.delete(task.id)
  }

  /** The process is about to end: tasks expire only when they are asked for. */
  beginClosing(): void {
    this.#sweep.close()
  }

  /** Resolves when the endpoint works on no task: all have ended, or wait for their clients. */
  whenIdle(): Promise<void> | undefined {
    return this.#idle.wait()
  }

  close(): void {
    for (const task of [...this.#running]) task.fail('closing')
    for (const task of [...this.#tasks.values()]) this.#drop(task)
  }

  #drop(task: Task): void {
    if (!this.#tasks.delete(task.id)) return
    task.forget()
    this.#byClient.delete(clientOf(task.facts), task)
    this.#places.release(task.facts.owner, 1)
  }

  /** Drops the tasks whose time is over. `false`: no task is left. */
  #expire(): boolean {
    for (const task of [...this.#tasks.values()]) if (task.isOver) this.#drop(task)
    return this.#tasks.size > 0
  }
}

function clientOf({ sessionId, owner }: Pick<TaskFacts, 'sessionId' | 'owner'>): string {
  return JSON.stringify([sessionId, owner])
}
