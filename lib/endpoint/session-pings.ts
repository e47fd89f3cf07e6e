// Whether the endpoint still knows a session: a 400 may be about the session or the request.
import type { IncomingMessage } from 'node:http'
import { INVALID_PARAMS, METHOD_NOT_FOUND, objectIn, type RequestId } from '../protocol/json-rpc.js'
import { writtenMessages } from '../protocol/json-splice.js'
import { FairStore } from '../streams/fair-store.js'
import { keyOf } from '../streams/groups.js'
import { Deadline } from '../streams/timer.js'
import { askEndpoint, type DebugLog, type Question } from './endpoint-client.js'

/** Milliseconds for which an answer counts: in that time, a session costs one `ping` at most. */
const COUNTS_FOR = 10_000
/** Milliseconds that the endpoint may take to answer. */
const PATIENCE = 10_000
const LONGEST_ANSWER = 64 * 1024

interface Session {
  readonly owner: string
  readonly name: string
  /** That it has negotiated, whatever the request at hand says. */
  readonly revision: string | undefined
}

export class SessionPings {
  readonly #debug: DebugLog
  readonly #answers: FairStore<{ readonly isLost: Promise<boolean> }>

  /** @param max of how many sessions answers are kept. */
  constructor(debug: DebugLog, max: number) {
    this.#debug = debug
    this.#answers = new FairStore({ maxSize: max, ttl: COUNTS_FOR })
  }

  /** `true`: the endpoint has answered a `ping` in it by 404 or 400. */
  isLost(req: IncomingMessage, session: Session, note?: object): Promise<boolean> {
    const { owner, name } = session
    const key = keyOf(owner, name)
    const known = this.#answers.get(key)
    if (known !== undefined) return known.isLost
    const isLost = this.#ask(req, session, note)
    this.#answers.set(key, owner, { isLost })
    return isLost
  }

  /** It has been begun again: what was said of it does not count any more. */
  forget(owner: string, name: string): void {
    this.#answers.delete(keyOf(owner, name))
  }

  async #ask(
    req: IncomingMessage,
    { revision }: Session,
    note: object | undefined
  ): Promise<boolean> {
    const patience = new Deadline(PATIENCE)
    const question: Question = {
      method: 'ping',
      headers: versionHeader(revision),
      note,
      signal: patience.signal,
      limit: LONGEST_ANSWER
    }
    try {
      const reply = await askEndpoint(req, question)
      if (reply.kind === 'answer') return false
      reply.response.destroy()
      return reply.response.statusCode === 404 || reply.response.statusCode === 400
    } catch (error) {
      this.#debug('the endpoint did not say whether it knows a session: %o', error)
      return false
    } finally {
      patience.clear()
    }
  }
}

/** Of errors that an endpoint gives to a request, and not to its session. */
const OF_REQUESTS: readonly unknown[] = [METHOD_NOT_FOUND, INVALID_PARAMS]

/** Whether a refusal says by itself that it is about the request: then the session is known. */
export function isAboutRequest(text: string, requestIds: readonly RequestId[]): boolean {
  return writtenMessages(text).some(
    ({ message }) =>
      requestIds.includes(message.id as RequestId) &&
      OF_REQUESTS.includes(objectIn(message.error)['code'])
  )
}

export function versionHeader(revision: string | undefined): readonly string[] {
  return revision === undefined ? [] : ['MCP-Protocol-Version', revision]
}
