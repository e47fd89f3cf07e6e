// `close()`: running calls keep their connections until they are answered, or a deadline.
import { now } from './protocol/clock.js'
import { Timer } from './streams/timer.js'
import type { RoutesInstance } from './routes/route.js'

/** Options of `close()`. */
export interface CloseOptions {
  /**
   * Milliseconds for which running calls are waited for, a whole number, 0 or more. After that,
   * each of their clients gets an error. Default: 20,000.
   */
  readonly drain?: number | undefined
}

const DRAIN = 20_000
/** Reconnection time for clients of listen channels where `retry` is off, in milliseconds. */
const LISTEN_RETRY = 1000
/** Milliseconds beyond twice their reconnection time that clients may stay away. */
const CLOSING_GRACE = 1000
/** Milliseconds that a socket has to take what is written last, before it is cut. */
const CLOSING_PATIENCE = 500

export class Closing {
  readonly #instance: RoutesInstance
  readonly #retry: number | null
  #closed: Promise<void> | undefined
  #expired: (() => void) | undefined
  // It does not keep the process alive: as long as a client has to be told, its socket does.
  readonly #deadline = new Timer(() => this.#expire())
  #due = Infinity

  /** @param retry the reconnection time, in milliseconds; `null`: none. */
  constructor(instance: RoutesInstance, retry: number | null) {
    this.#instance = instance
    this.#retry = retry
  }

  /**
   * Resolves when nothing is held any more. The earliest of several deadlines counts.
   *
   * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
   */
  close(options: CloseOptions | undefined): Promise<void> {
    const drain = drainOf(options)
    this.#closed ??= this.#begin()
    if (drain === 0) this.#expire()
    else this.#expireIn(drain)
    return this.#closed
  }

  async #begin(): Promise<void> {
    const instance = this.#instance
    const { features, others } = instance
    const retry = this.#retry ?? LISTEN_RETRY
    const comesBackWithin = 2 * (this.#retry ?? 0) + CLOSING_GRACE
    instance.connections.giveStreams()
    instance.isClosing = true
    others?.beginClosing(comesBackWithin)
    const spread = (): number => Math.round(retry * (0.8 + 0.4 * Math.random()))
    instance.connections.stopListening(spread)
    others?.stopListening()
    this.#abandonAfter(others === undefined ? comesBackWithin : Infinity)
    for (const feature of features) feature.beginClosing?.(comesBackWithin)
    const expired = new Promise<void>(resolve => (this.#expired = resolve))
    // With another instance to relay them, running calls need no client here.
    const mayMove =
      others !== undefined &&
      (await Promise.race([others.hasSuccessor(), expired.then(() => false)]))
    if (others !== undefined && !mayMove) this.#abandonAfter(comesBackWithin)
    instance.connections.beginClosing(mayMove)
    if (mayMove) others.leave()
    await Promise.race([this.#whenIdle(), expired])
    await instance.connections.whenIdle()
    instance.connections.close()
    others?.cut()
    this.#expired = undefined
    this.#deadline.stop()
  }

  /** All at once: others send requests here for as long as they know the way. */
  async #whenIdle(): Promise<void> {
    for (let wait = this.#underWay(); wait !== undefined; wait = this.#underWay()) await wait
  }

  #underWay(): Promise<void> | undefined {
    const { table, features, connections, others } = this.#instance
    let wait = table.running.whenCallsOver() ?? others?.whenAnswered()
    for (const feature of features) wait ??= feature.whenIdle?.()
    return wait ?? others?.whenCallsOver() ?? connections.whenIdle()
  }

  /** Calls whose clients stay away for longer than so many milliseconds are given up. */
  #abandonAfter(time: number): void {
    const { table, features } = this.#instance
    table.beginClosing(time)
    for (const feature of features) feature.abandonAfter?.(time)
  }

  #expireIn(drain: number): void {
    const due = now() + drain
    if (this.#expired === undefined || due >= this.#due) return
    this.#due = due
    this.#deadline.start(drain)
  }

  /** Time is up: clients that still wait get an error. */
  #expire(): void {
    if (this.#expired === undefined) return
    const instance = this.#instance
    const { features, others } = instance
    this.#expired()
    this.#expired = undefined
    this.#deadline.stop()
    // Calls with tokens come first: what they are answered with is kept under their keys.
    for (const feature of features) feature.expire?.()
    instance.table.running.failCalls('closing')
    others?.cut()
    instance.connections.cutAfter(CLOSING_PATIENCE)
  }
}

function drainOf(options: unknown): number {
  if (options === undefined) return DRAIN
  if (typeof options !== 'object' || options === null)
    throw new TypeError('close: options must be an object')
  const [other] = Object.keys(options).filter(name => name !== 'drain')
  if (other !== undefined) throw new TypeError(`close: unknown option \`${other}\``)
  const { drain = DRAIN } = options as { drain?: unknown }
  if (!Number.isSafeInteger(drain) || (drain as number) < 0)
    throw new TypeError('close: option `drain` must be a whole number of milliseconds, 0 or more')
  return drain as number
}
