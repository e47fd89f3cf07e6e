// Silence on a wire: after half of the allowed time, the other side is asked for a sign of life;
// after the other half, the wire is given up.
import { alarm } from './waiting.js'

export interface SilenceListener {
  /** Whether anything is waited for; if not, silence means nothing. */
  isAwaited(): boolean
  ask(): void
  giveUp(): void
}

export interface Silence {
  /** A message has come, so the time begins again. */
  broken(): void
  stop(): void
}

/** @param patience milliseconds; `null`: no limit */
export function listenForSilence(patience: number | null, listener: SilenceListener): Silence {
  let stop = (): void => undefined
  const watch = (hasAsked: boolean): void => {
    stop()
    if (patience === null) return
    stop = alarm(patience / 2, () => {
      // Checked again later: a request may be sent meanwhile.
      if (!listener.isAwaited()) return watch(hasAsked)
      if (hasAsked) return listener.giveUp()
      watch(true)
      listener.ask()
    })
  }
  return { broken: () => watch(false), stop: () => stop() }
}
