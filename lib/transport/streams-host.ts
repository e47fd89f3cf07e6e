// The part of an instance that transports need.
import type { ResumeInterval } from '../protocol/stream-messages.js'
import type { Stream } from '../streams/stream.js'
import type { StreamRegistry } from '../streams/stream-registry.js'

export interface StreamsHost {
  readonly table: StreamRegistry
  readonly resumeInterval: ResumeInterval
  /**
   * Which clients are told of streams: with `auto`, those that declare them. For others, a
   * transport works as if it were not wrapped.
   */
  readonly notifications: 'auto' | 'always' | 'never'
  /** The process is about to end: nothing new is opened. */
  readonly isClosing: boolean
  /** A digest of a text, to be kept in its place. */
  readonly hash: (text: string) => string
  /** A line for `DEBUG=mcp-streams`. */
  readonly debug: (format: string, ...args: unknown[]) => void
  /** Counts and publishes what happened between a client and a stream. */
  readonly count: (
    name: 'resumed' | 'taken-over' | 'refused',
    stream: Stream | undefined,
    reason?: string
  ) => void
}
