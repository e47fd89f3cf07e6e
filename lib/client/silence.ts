// Silence on a wire: at half of what is borne the other side is asked for a sign of life, and then
// the wire is given up.
import { alarm } from './alarm.js'

export interface SilenceListener {
  /** `false`: nothing is waited for, so that silence means nothing. */
  isAwaited(): boolean
  ask(): void
  giveUp(): void
}

export interface Silence {
  /** Something came: it begins anew. */
  broken(): void
  stop(): void
}

/** @param patience milliseconds; `null`: for ever */
export function listenForSilence(patience: number | null, listener: SilenceListener): Silence {
  let stop = (): void => undefined
  const watch = (hasAsked: boolean): void => {
    stop()
    if (patience === null) return
    stop = alarm(patience / 2, () => {
      // Looked at again later: what is awaited may be asked for meanwhile.
      if (!listener.isAwaited()) return watch(hasAsked)
      if (hasAsked) return listener.giveUp()
      watch(true)
      listener.ask()
    })
  }
  return { broken: () => watch(false), stop: () => stop() }
}
