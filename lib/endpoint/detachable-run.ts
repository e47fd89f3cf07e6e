// A call that goes on without its request: its client is given a result in the meantime, and what
// the endpoint says from then on goes to a stream that somebody else reads.
import { isRequest, type RequestId } from '../protocol/json-rpc.js'
import { ONE_CONNECTION } from '../protocol/revisions.js'
import type { Stream } from '../streams/stream.js'
import type { Connection } from '../readers/connection.js'
import { EndpointCapture } from './capture.js'
import { keepBody } from './node-internals.js'
import type { ProgressReport } from './progress-reports.js'
import { RunStream } from './run-stream.js'

/**
 * Takes over the stream of a call, in whose place its client gets a result in the meantime: its
 * JSON. `undefined`: there is no room for that.
 */
export type Interim = (stream: Stream) => string | undefined

/** What came of letting a call go on without its client. */
export type Detachment =
  | 'detached'
  | 'no-room'
  /** It has been answered, or is about to be; or its client has left. */
  | 'too-late'

const JSON_HEAD = { 'content-type': 'application/json', 'cache-control': 'no-store' }

export class DetachableRun extends RunStream {
  /** The answer to a call that has gone on without its client. */
  #interim: Buffer | undefined

  /**
   * Lets the call go on without its client, which gets a result in the meantime.
   *
   * @param askedAs the id that the endpoint knows the call by. Default: the client's.
   */
  goOnAlone(interim: Interim, askedAs?: RequestId): Detachment {
    const { instance, owner, session, messages, keyed } = this.request
    const current = this.handler.stream
    const capture =
      current === undefined ? new EndpointCapture(this.response, this, true) : this.capture
    if (current?.isEnded === true || capture === undefined) return 'too-late'
    const requestIds = messages.filter(isRequest).map(({ id }) => id)
    const stream = instance.table.open(
      {
        id: instance.newId(),
        kind: 'request',
        owner,
        requestIds: askedAs === undefined ? requestIds : [askedAs],
        sessionId: session,
        profile: ONE_CONNECTION,
        isEphemeral: true,
        isUnknown: true
      },
      capture
    )
    const result = stream && interim(stream)
    if (stream === undefined || result === undefined) {
      if (stream !== undefined) instance.table.forget(stream)
      return 'no-room'
    }
    instance.table.announce(stream)
    const id = JSON.stringify(requestIds[0])
    const answer = `{"jsonrpc":"2.0","id":${id},"result":${result}}`
    capture.goOnIn(stream)
    this.handler.take(stream)
    if (current !== undefined) current.endWith(answer)
    else {
      this.#interim = Buffer.from(answer)
      keyed?.settle({
        kind: 'answer',
        answer: { status: 200, headers: JSON_HEAD, body: this.#interim }
      })
      this.handler.isUntaken = false
      this.response.takeEarly(capture)
    }
    return 'detached'
  }

  override beginEarly(stream: Stream): Connection | undefined {
    if (this.#interim === undefined) return super.beginEarly(stream)
    this.#answerInterim(this.#interim)
    return undefined
  }

  override reportProgress(stream: Stream): ProgressReport | undefined {
    return this.#interim === undefined ? super.reportProgress(stream) : undefined
  }

  #answerInterim(body: Buffer): void {
    const { req } = this.request
    const { wire } = this.response
    // The endpoint may not have read its request yet.
    keepBody(req)
    wire.sendEarlyHead('application/json', () => {
      wire.setHeader('Cache-Control', 'no-store')
      wire.setHeader('Content-Length', String(body.length))
    })
    if (wire.isOver) return
    wire.write(body)
    wire.end()
  }
}
