// What the tools of an endpoint have done, and a rein on when they go on. Calls are told apart by
// their `key` argument.

import { Awaitable } from '../gate.js'

export interface ToolCall {
  tool: string
  key: string
  /** Notifications sent so far. */
  sent: number
  /** 'threw' when sending failed as well as when the tool did; 'aborted' when its signal fired. */
  state: 'running' | 'returned' | 'threw' | 'aborted'
  signal: AbortSignal
  error: unknown
}

export class ToolLog {
  /** Every execution, in order: one that runs twice is here twice. `await calls.nth(n)`. */
  readonly calls = new Awaitable<ToolCall>()
  /** Executions that ended, in the order they did, whatever their state. */
  readonly ended = new Awaitable<ToolCall>()
  readonly #executions = new Map<string, number>()
  readonly #permits = new Map<string, { free: number; waiting: (() => void)[] }>()

  /** How often calls with this key were executed. */
  executions(key: string): number {
    return this.#executions.get(key) ?? 0
  }

  /** The calls with this key whose signal has fired. */
  aborted(key: string): number {
    return this.calls.filter(call => call.key === key && call.signal.aborted).length
  }

  /** Lets a `paced` call with this key take n more steps: a notification each, and the result. */
  release(key: string, n = 1): void {
    const permits = this.#permitsOf(key)
    permits.free += n
    while (permits.free > 0 && permits.waiting.length > 0) {
      permits.free--
      permits.waiting.shift()!()
    }
  }

  /** @internal Waits for a step of `release`. */
  async permit(key: string): Promise<void> {
    const permits = this.#permitsOf(key)
    if (permits.free > 0) permits.free--
    else await new Promise<void>(resolve => permits.waiting.push(resolve))
  }

  /** @internal */
  async run<T>(
    entry: Pick<ToolCall, 'tool' | 'key' | 'signal'>,
    work: (call: ToolCall) => Promise<T> | T
  ): Promise<T> {
    const call: ToolCall = { ...entry, sent: 0, state: 'running', error: undefined }
    this.#executions.set(call.key, this.executions(call.key) + 1)
    this.calls.push(call)
    try {
      const value = await work(call)
      call.state = 'returned'
      return value
    } catch (error) {
      call.state = call.signal.aborted ? 'aborted' : 'threw'
      call.error = error
      throw error
    } finally {
      this.ended.push(call)
    }
  }

  #permitsOf(key: string) {
    let permits = this.#permits.get(key)
    if (!permits) this.#permits.set(key, (permits = { free: 0, waiting: [] }))
    return permits
  }
}
