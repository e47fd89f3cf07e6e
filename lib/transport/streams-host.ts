// As much of what `mcpStreams()` owns as transports need.
import type { ResumeInterval } from '../protocol/stream-messages.js'
import type { Stream } from '../streams/stream.js'
import type { StreamRegistry } from '../streams/stream-registry.js'

export interface StreamsHost {
  readonly table: StreamRegistry
  readonly resumeInterval: ResumeInterval
  /**
   * To which clients streams are announced: `auto`, to those that declare it. To others, a
   * transport stays as it is.
   */
  readonly notifications: 'auto' | 'always' | 'never'
  /** The process is about to end: nothing new is taken. */
  readonly isClosing: boolean
  /** A digest of a text, which stands for it where the text itself is not to be kept. */
  readonly hash: (text: string) => string
  /** A line for `DEBUG=mcp-streams`. */
  readonly debug: (format: string, ...args: unknown[]) => void
  /** Something happened between a client and a stream. */
  readonly count: (
    name: 'resumed' | 'taken-over' | 'refused',
    stream: Stream | undefined,
    reason?: string
  ) => void
}
