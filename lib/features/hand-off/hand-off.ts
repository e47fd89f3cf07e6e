// The hand-off (SEP-1335, "disconnect at will"): a client that comes back by itself need not stay
// connected. A stream that has asked its client something ends the response once it is quiet; the
// client sends its answers in one POST to the stream URL, and gets the next turn. In this file:
// when and for whom a stream stops, with which reconnection time, and who gets a 204 when it is
// back. How a connection ends is in `readers/connection.ts` (`disconnect`), also when its handler
// asks for it or its age is `disconnectAfter`; what a stream has asked is in
// `streams/input-wait.ts`, and what is expected of each client in `protocol/revisions.ts`.
import { label, type StreamName } from '../../protocol/event-id.js'
import type { ResumeInterval } from '../../protocol/stream-messages.js'
import type { FoundStream } from '../../streams/directory.js'
import type { Stream } from '../../streams/stream.js'
import type { AskingStream, HandOffRules } from '../../streams/stream-types.js'
import type { Answer, Feature, WaitingStreams } from '../../endpoint/feature.js'
import { noteDirectAnswer } from '../../endpoint/outcome.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { answer, noContent } from '../../http/reply.js'
import { takeAnswers } from './client-answers.js'

/** Reconnection time after a disconnect at will: the limit of `retry`, and its default. */
const AT_WILL_RETRY = 1000

/** The reconnection time, in milliseconds, of clients that are disconnected at will. */
export function retryAtWill(retry: number | null, { min }: ResumeInterval): number {
  const highest = Math.min(retry ?? AT_WILL_RETRY, AT_WILL_RETRY)
  return Math.max(highest, Math.round(min * 1000))
}

/** Milliseconds without an event after which a client that follows links is given its turn. */
export const QUIET = 50

/** When a stream that has asked its client stops for the answers. */
export class HandOffTimes implements HandOffRules {
  readonly #after: number

  /**
   * @param after milliseconds without an event after which any other client is disconnected, and
   * shows by how it comes back.
   */
  constructor(after: number) {
    this.#after = after
  }

  /** Clients that handle one request after the other would not answer behind the question. */
  needsPing(stream: AskingStream): boolean {
    return (
      stream.kind === 'request' &&
      stream.state === 'live' &&
      stream.profile.handoff === 'when-links-followed' &&
      !stream.followsLinks &&
      !stream.answersDirectly
    )
  }

  isForClient({ profile, followsLinks }: AskingStream): boolean {
    return profile.handoff === 'when-quiet' || followsLinks
  }

  patienceWith(stream: AskingStream): number | undefined {
    const { kind, state, profile, readers, hasReader, isClosing } = stream
    const isRunning = kind === 'request' && state === 'live' && !isClosing
    // The first reader must have begun before it can be sent away.
    if (!isRunning || profile.handoff === 'never' || readers.count === 0) return undefined
    if (this.isForClient(stream)) return QUIET
    // Once: a client that comes back to the endpoint sends its answers there, and one that has
    // answered a ping may not come back at all.
    const isTried = stream.answersDirectly || readers.count > 1
    return isTried || !hasReader ? undefined : this.#after
  }
}

export class HandOff implements Feature, WaitingStreams {
  readonly triggers = { traits: ['answers'] as const }

  /** Answers to our pings, or that the endpoint has got already: accepted, and not passed on. */
  byMessage(context: RequestContext): Answer | undefined {
    const { facts } = context
    if (facts.answered.length === 0 || facts.isTooMany) return undefined
    if (!notePongs(context) && !isHandedOver(context)) return undefined
    return () => {
      context.instance.debug(
        'POST of answers that are ours, or that the endpoint has already: ' +
          'accepted, and not passed on'
      )
      answer(context.res, 202)
    }
  }

  // WaitingStreams

  answered(context: RequestContext, found: FoundStream, name: StreamName): Promise<void> {
    return takeAnswers(context, found, name)
  }

  /** 204: no connection is held until the client POSTs its answers. */
  mustAnswer(context: RequestContext, stream: Stream, cursor: number | undefined): boolean {
    const turn = stream.state === 'waiting' ? turnFor(stream, cursor) : undefined
    if (turn === undefined) return false
    context.instance.debug('stream %s waits for its client: 204', label(stream))
    if (context.method !== 'HEAD') stream.inputWait?.acknowledged(turn)
    stream.signOfLife()
    noContent(context.res)
    return true
  }
}

/**
 * Where a client is told its turn; `undefined`: it gets events first. A reader that closed cleanly
 * speaks for one without cursor.
 */
function turnFor({ inputWait, last }: Stream, cursor: number | undefined): number | undefined {
  const left = inputWait?.left
  if (cursor === undefined) {
    // For a client without a cursor, only a reader without one speaks: a wire may have broken.
    const hasAll = left?.isWholeTurn === true && (left.at === last || left.hasWaited)
    return hasAll ? left.at : undefined
  }
  // What has come since a reader closed while the stream waited comes after the answers.
  const hasSeenAll = left?.at === cursor && left.hasWaited
  return cursor === last || hasSeenAll ? cursor : undefined
}

/** Notes answers to our own pings. `true`: there is nothing else in the POST. */
function notePongs({ instance, facts, session, owner }: RequestContext): boolean {
  let count = 0
  for (const id of facts.answered) {
    const stream = instance.table.index.findPinged(id)
    if (stream === undefined || stream.owner !== owner || stream.sessionId !== session) continue
    noteDirectAnswer(instance, stream)
    count++
  }
  return count > 0 && count === facts.count
}

/** Whether it only repeats answers that came by a hand-off, of which the first counts. */
function isHandedOver({ instance, facts, session, owner }: RequestContext): boolean {
  if (session === undefined || !facts.areResponses) return false
  const { index } = instance.table
  return facts.answered.every(id => index.wasHandedOver(id, session, owner))
}
