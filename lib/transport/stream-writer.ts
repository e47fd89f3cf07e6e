// How a session's messages get into its streams: it opens them, and waits where they are full.
import { nanoid } from 'nanoid'
import type { RequestId } from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import type { WireMessage } from '../protocol/shared-wire.js'
import type { Stream } from '../streams/stream.js'
import type { Producer, StreamInit } from '../streams/stream-types.js'
import { append } from './messages.js'
import type { StreamsHost } from './shared-streams.js'

/** A wire has no revisions to heed, no primers, and nothing to hand off. */
const PROFILE: ClientProfile = { taken: true, primer: 'none', reconnects: true, handoff: 'never' }

export class StreamWriter {
  readonly #host: StreamsHost
  /** Who waits for room in which stream. */
  readonly #waiting = new Map<Stream, (() => void)[]>()

  constructor(host: StreamsHost) {
    this.#host = host
  }

  /**
   * `undefined`: there is no room for it. `over` is told when it has ended, `unanswered` of what
   * its client will not answer any more.
   */
  open(
    init: Pick<StreamInit, 'kind' | 'owner' | 'requestIds' | 'sessionId'>,
    over: (stream: Stream) => void,
    unanswered: (ids: readonly RequestId[]) => void
  ): Stream | undefined {
    const { table, resumeInterval, isClosing } = this.#host
    if (isClosing) return undefined
    const producer: Producer = {
      drain: () => this.#drained(stream),
      unanswered,
      release: () => {
        this.#drained(stream)
        if (stream !== undefined) over(stream)
      }
    }
    const stream = table.open({ ...init, id: nanoid(), profile: PROFILE, resumeInterval }, producer)
    return stream
  }

  /**
   * Waits where the stream is full: until its client reads again, or until there is no stream any
   * more.
   */
  async write(stream: Stream, message: WireMessage): Promise<void> {
    const hasRoom = append(stream, JSON.stringify(message))
    if (hasRoom || stream.isEnded) return
    await new Promise<void>(resolve =>
      this.#waiting.set(stream, [...(this.#waiting.get(stream) ?? []), resolve])
    )
  }

  /** Writes the response that a stream is for. */
  finish(stream: Stream, response: WireMessage): void {
    append(stream, JSON.stringify(response))
    stream.producerEnded()
  }

  #drained(stream: Stream | undefined): void {
    if (stream === undefined) return
    const waiting = this.#waiting.get(stream) ?? []
    this.#waiting.delete(stream)
    for (const resolve of waiting) resolve()
  }
}
