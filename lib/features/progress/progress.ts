// Progress in the endpoint's place (MCP, "Progress"): some clients give up on a call of which they
// hear nothing.
import { now } from '../../protocol/clock.js'
import { DueQueue, Waiting } from '../../streams/due-queue.js'
import type { RequestId } from '../../protocol/json-rpc.js'
import { encodeMessage } from '../../protocol/sse-writer.js'
import type { CallProgress, ProgressReports } from '../../endpoint/instance-parts.js'
import type { Stream } from '../../streams/stream.js'

interface ProgressSettings {
  /** Milliseconds of silence before the first report. */
  readonly after: number
  /** Milliseconds between reports. */
  readonly every: number
}

export class Progress implements ProgressReports {
  readonly after: number
  readonly first: DueQueue
  readonly next: DueQueue

  constructor({ after, every }: ProgressSettings) {
    this.after = after
    this.first = new DueQueue(after)
    this.next = new DueQueue(every)
  }

  begin(
    stream: Stream,
    tokens: readonly RequestId[],
    startedAt: number
  ): ProgressReport | undefined {
    return tokens.length === 0 ? undefined : new ProgressReport(this, stream, tokens, startedAt)
  }
}

/** The endpoint counts mostly from 1. Ours stay below, so that values of a token only grow. */
const SECONDS_IN_ONE = 1e9

const decoder = new TextDecoder()

class ProgressReport implements CallProgress {
  readonly #reports: Progress
  readonly #stream: Stream
  readonly #startedAt: number
  readonly #tokens: readonly RequestId[]
  #saidAt: number
  readonly #waiting = new Waiting(() => this.#due())

  constructor(reports: Progress, stream: Stream, tokens: readonly RequestId[], startedAt: number) {
    this.#reports = reports
    this.#stream = stream
    this.#tokens = tokens
    this.#startedAt = this.#saidAt = startedAt
    const isLate = now() - startedAt >= reports.after
    ;(isLate ? reports.next : reports.first).add(this.#waiting)
  }

  /** Where the endpoint reports progress itself, we report no more. */
  heard(block: Uint8Array): void {
    this.#saidAt = now()
    // With its quotes: within a text of the message, they would have a backslash each.
    if (decoder.decode(block).includes('"notifications/progress"')) this.stop()
  }

  stop(): void {
    this.#waiting.stop()
  }

  #due(): void {
    const { after, first, next } = this.#reports
    const stream = this.#stream
    if (stream.isEnded) return
    const time = now()
    if (time - this.#saidAt < after) return first.add(this.#waiting)
    const seconds = (time - this.#startedAt) / 1000
    const progress = seconds / SECONDS_IN_ONE
    const message = `still running, ${Math.round(seconds)} s`
    for (const progressToken of this.#tokens) {
      const params = { progressToken, progress, message }
      // Only for a client that is connected now: it is not kept, so it cannot be resumed.
      stream.comment(
        encodeMessage(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params }))
      )
    }
    next.add(this.#waiting)
  }
}
