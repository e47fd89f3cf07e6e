// What stands around a tapped response: who decides whether it is taken, and who takes what the endpoint writes.
import type { ResponseTap } from './tap.js'

/** What is known of a response when its head is due. */
export interface ResponseHead {
  /** It is an event stream with status 200 that nobody has encoded, and its client is still there. */
  readonly isStream: boolean
  /** A header, by its lower-case name. */
  header(name: string): string | undefined
}

/** Takes what the endpoint writes, once a response has been taken. */
export interface Intake {
  /** The head may leave: add the headers, then connect. Called once, at the end of the tick of `writeHead` at the latest. */
  begin(): void
  /** `false`: full; wait for `drain`. */
  write(bytes: Buffer): boolean
  /** There is no room now. */
  readonly isFull: boolean
  end(): void
  /** The endpoint has destroyed its response, or has thrown. */
  abort(): void
  /** The connection that `begin` has opened is over. */
  parted(): void
}

export interface TapHost {
  /** Whether a response is taken. Called once, when its head is due; only streams can be taken. */
  take(tap: ResponseTap, head: ResponseHead): Intake | undefined
  /** Whether the running code was called by the endpoint behind this tap. */
  isInsideHandler(): boolean
  /** The endpoint has destroyed a response that was not taken, or not yet. */
  brokenOff(): void
}
