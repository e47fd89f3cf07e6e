// The stream that a response becomes, early or not; and how its call goes on alone.
import { label } from '../protocol/event-id.js'
import type { Message, RequestId } from '../protocol/json-rpc.js'
import { ONE_CONNECTION } from '../protocol/revisions.js'
import type { Stream } from '../streams/stream.js'
import { EndpointCapture } from './capture.js'
import type { Capture } from './capture-types.js'
import { isAnnounced } from './declarations.js'
import { openEarlyStream } from './early-stream.js'
import { noteRevision } from './outcome.js'
import { type InTheMeantime, CaptureHost } from './capture-host.js'

/** Takes over a call's stream, and returns the interim result's JSON; `undefined`: no room. */
export type Interim = (stream: Stream) => string | undefined

/** What came of letting a call go on without its client. */
export type Detachment =
  | 'detached'
  | 'no-room'
  /** It has been answered, or is about to be; or its client has left. */
  | 'too-late'

const JSON_HEAD = { 'content-type': 'application/json', 'cache-control': 'no-store' }

export class RunStream extends CaptureHost {
  /** Set if the call may go on without its client; called when the endpoint answers it. */
  onAnswered: (() => void) | undefined
  protected capture: EndpointCapture | undefined

  /** Takes the endpoint's event stream. `undefined`: there is no room for it. */
  open(sessionId: string | undefined): Capture | undefined {
    const { instance, req, owner, facts, keyed } = this.request
    const { initialize } = this
    const profile = this.request.profile.taken ? this.request.profile : ONE_CONNECTION
    const capture = new EndpointCapture(this.response, this)
    const stream = instance.table.open(
      {
        id: this.handler.id,
        kind: req.method === 'GET' ? 'listen' : 'request',
        owner,
        requestIds: facts.requestIds,
        sessionId,
        profile,
        isEphemeral: !profile.taken,
        isHandshake: initialize !== undefined,
        isConnecting: true,
        callKey: keyed?.key,
        resumeInterval: isAnnounced(instance, owner, sessionId, facts)
          ? instance.resumeInterval
          : undefined
      },
      capture
    )
    if (stream === undefined) {
      instance.count('refused', undefined, 'full')
      return undefined
    }
    const onResponse =
      initialize === undefined
        ? this.onAnswered
        : (message: Message) => noteRevision(instance, initialize, message)
    if (onResponse !== undefined) stream.onResponse = onResponse
    if (stream.kind === 'listen' && sessionId !== undefined) instance.slow.shown(owner, sessionId)
    this.#started(stream, capture)
    keyed?.settle({ kind: 'stream', streamId: stream.id })
    if (this.response.wire.isGone) this.goesOnAlone()
    return capture
  }

  /** What the request takes counts from now on, as it is held for the endpoint alone. */
  goesOnAlone(): void {
    this.handler.stream?.holdRequest(this.request.memory)
  }

  /** Gives the wire to a reader while the endpoint has not begun to answer. */
  openInTheMeantime(meantime: InTheMeantime): void {
    const { instance, res, method, keyed } = this.request
    if (res.destroyed || res.writableEnded) return
    const isDurable = meantime === 'event stream'
    const capture = new EndpointCapture(this.response, this, true)
    const stream = openEarlyStream(this.request, this.handler.id, isDurable, capture)
    if (stream === undefined) return
    instance.debug('%s has waited long enough: %s in the meantime', method, meantime)
    this.meantime = meantime
    this.handler.isUntaken = false
    this.#started(stream, capture)
    if (isDurable) keyed?.settle({ kind: 'stream', streamId: stream.id })
    this.response.takeEarly(capture)
  }

  /** @param askedAs the id that the endpoint knows the call by. Default: the client's. */
  goOnAlone(interim: Interim, askedAs?: RequestId): Detachment {
    const { instance, owner, session, facts, keyed } = this.request
    const current = this.handler.stream
    const capture =
      current === undefined ? new EndpointCapture(this.response, this, true) : this.capture
    if (current?.isEnded === true || capture === undefined) return 'too-late'
    const { requestIds } = facts
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
      this.interim = Buffer.from(answer)
      keyed?.settle({ kind: 'answer', status: 200, headers: JSON_HEAD, body: this.interim })
      this.handler.isUntaken = false
      this.response.takeEarly(capture)
    }
    if (this.response.wire.isGone) this.goesOnAlone()
    return 'detached'
  }

  #started(stream: Stream, capture: EndpointCapture): void {
    const { instance, req, facts } = this.request
    // Node forgets the addresses of a socket that is gone, unless they have been read before.
    void req.socket.remoteAddress
    void req.socket.localAddress
    capture.stream = stream
    this.capture = capture
    instance.debug('stream %s answers %s', label(stream), () =>
      stream.kind === 'listen' ? 'a GET' : facts.inWords
    )
    this.handler.take(stream)
  }
}
