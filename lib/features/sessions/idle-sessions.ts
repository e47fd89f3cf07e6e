// Sessions that their clients have left are ended at the endpoint (`idle`): many clients never say
// that they are done, and each session that is forgotten costs the endpoint a server of its own.
import type { IncomingMessage } from 'node:http'
import { DueQueue, Waiting } from '../../streams/due-queue.js'
import { onceOver } from '../../endpoint/acceptance.js'
import { isAccepted, sendToEndpoint } from '../../endpoint/endpoint-client.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { versionHeader } from '../../endpoint/session-pings.js'
import { standInFor } from '../../http/loopback.js'
import { memoryOfRequest } from '../../http/request-body.js'
import { FairLine } from './fair-line.js'
import { type Session, SessionNote } from './session.js'

/** Many may be left at once: other work comes first. */
const AT_ONCE = 4
/** Milliseconds that one may wait for its turn to be ended. */
const LONGEST_WAIT = 600_000

export class IdleSessions {
  ended = 0
  /** Bytes that are kept of their last requests. */
  bytes = 0
  readonly #parts: InstanceParts
  readonly #due: DueQueue
  readonly #line: FairLine
  /** It takes no `DELETE`. */
  #isRefused = false
  #hasNoted = false

  /**
   * @param idle milliseconds without a request.
   * @param most how many may wait to be ended.
   */
  constructor(parts: InstanceParts, idle: number, most: number) {
    this.#parts = parts
    this.#due = new DueQueue(idle)
    this.#line = new FairLine({ atOnce: AT_ONCE, most, patience: LONGEST_WAIT })
  }

  /** A request has come that the endpoint need not get. */
  used({ idle }: Session): void {
    if (idle?.list !== undefined) this.#due.add(idle)
  }

  /** It is in use until a request is over: a call that runs, or a listen channel. */
  uses(session: Session, { req, res }: RequestContext): void {
    session.atEndpoint++
    session.idle?.stop()
    this.#forget(session)
    onceOver(res, () => {
      session.atEndpoint--
      if (session.atEndpoint > 0 || session.state !== 'known') return
      session.last = rememberRequest(req)
      this.bytes += memoryOfRequest(session.last, 0)
      this.#due.add((session.idle ??= new Waiting(() => this.#isIdle(session))))
    })
  }

  /** It has to make room: from now on, nobody would end it. */
  evicted(session: Session): void {
    if (session.idle?.list === undefined) return
    session.idle.stop()
    this.#isIdle(session)
  }

  /** It has ended, or will not be ended here. */
  drop(session: Session): void {
    session.idle?.stop()
    this.#forget(session)
  }

  close(): void {
    this.#due.close()
  }

  #forget(session: Session): void {
    if (session.last !== undefined) this.bytes -= memoryOfRequest(session.last, 0)
    session.last = undefined
  }

  #isIdle(session: Session): void {
    // Others may have used it, at instances that know nothing of this one.
    if (this.#parts.sessions.areShared) return this.#forget(session)
    const { last } = session
    void this.#line.run(session.owner, async () => {
      // Its client may have come back meanwhile.
      if (last === undefined || session.last !== last || session.state !== 'known') return
      session.ending = this.#end(session, last).finally(() => (session.ending = undefined))
      await session.ending
    })
  }

  async #end(session: Session, last: NonNullable<Session['last']>): Promise<void> {
    const { debug } = this.#parts
    this.#forget(session)
    if (this.#isRefused) return
    const headers = ['Mcp-Session-Id', session.id, ...versionHeader(session.revision)]
    try {
      const status = await endAtEndpoint(last, headers, new SessionNote(session.endpointId))
      if (isAccepted({ statusCode: status })) {
        session.state = 'idle'
        this.ended++
        return debug('a session was idle, and is ended at the endpoint')
      }
      // Another status may be about this client, or this session.
      if (status === 405) this.#isRefused = true
      if (status === 405 || status === 404) this.#noteRefused(status)
      else debug('an idle session was not ended: %d', status)
    } catch (error) {
      debug('an idle session was not ended: %o', error)
    }
  }

  #noteRefused(status: number): void {
    if (this.#hasNoted) return
    this.#hasNoted = true
    this.#parts.debug(
      'the endpoint does not take DELETE (%d): idle sessions are left alone',
      status
    )
  }
}

/** Milliseconds after which an endpoint is given up that does not answer. */
const PATIENCE = 30_000

/** Ends a session in its client's name. Returns the status that the endpoint gives. */
export async function endAtEndpoint(
  req: IncomingMessage,
  headers: readonly string[],
  note: SessionNote
): Promise<number> {
  const options = { method: 'DELETE', headers, note, patience: PATIENCE }
  const response = await sendToEndpoint(req, undefined, options)
  response.destroy()
  return response.statusCode ?? 0
}

/**
 * What is kept of a request, once it is over, to say something more in its client's name. With a
 * certificate of the client's, or what else a guard asks of a socket by a function, it has none.
 */
function rememberRequest(req: IncomingMessage): IncomingMessage {
  const { originalUrl, url, method, rawHeaders, socket } = req as {
    originalUrl?: string
  } & typeof req
  const { host, 'mcp-method': named } = req.headers
  const headers = {
    ...(host !== undefined && { host }),
    ...(named !== undefined && { 'mcp-method': named })
  }
  const kept = { url: originalUrl ?? url, method, rawHeaders, headers, socket: standInFor(socket) }
  return kept as unknown as IncomingMessage
}
