// The client's answers, kept until the server waits for them (SEP-1335).
import { now } from '../protocol/clock.js'
import { isResponse, MOST_ID_LENGTH, type RequestId } from '../protocol/json-rpc.js'
import type { WrittenMessage } from '../protocol/json-splice.js'
import { pause } from './waiting.js'
import type { StreamCall } from './stream-request.js'

/** Requests of one stream that wait for an answer, as many as in the middleware. */
const MOST_ASKED = 1000

/** Beyond the limit, answers to the oldest requests go straight to the server. */
export function noteRequest(call: StreamCall, id: RequestId): void {
  const { asked } = call
  call.askedAt = now()
  if (!call.hasRequests || asked.has(id)) return
  asked.set(id, undefined)
  const most = (id as string).length > MOST_ID_LENGTH ? 1 : MOST_ASKED
  for (const [oldest, answer] of asked) {
    if (asked.size <= most) break
    asked.delete(oldest)
    sendStraight(call, answer)
  }
}

/**
 * Keeps answers for the streams that asked; `false`: a call does not hand off, or others are there.
 */
export function keepAnswers(
  calls: Iterable<StreamCall>,
  messages: readonly WrittenMessage[],
  scope: string
): boolean {
  const kept = new Map<WrittenMessage, StreamCall>()
  for (const written of messages) {
    const { message } = written
    const asking = [...calls].filter(
      call => isResponse(message) && call.scope === scope && call.asked.has(message.id)
    )
    // Without a session, calls may share an id: the call that asked first gets the first answer.
    const call =
      asking.find(({ asked }) => asked.get(message.id as RequestId) === undefined) ?? asking[0]
    if (call !== undefined) kept.set(written, call)
  }
  const isKept = kept.size > 0 && messages.every(written => kept.get(written)?.handsOff)
  for (const [written, call] of kept) {
    const id = written.message.id as RequestId
    // The server may yet ask for it at the end of its turn: it is kept even if it is sent.
    if (isKept || !call.server.isOurs) call.asked.set(id, written)
    else call.asked.delete(id)
    if (!isKept) call.answeredItselfAt = now()
    else if (!call.server.isOurs && call.server.handsOff === undefined) waitForTurn(call)
    call.onAnswer?.()
  }
  return isKept
}

/** Milliseconds after its last request in which a server that hands off ends its turn. */
const TURN_PATIENCE = 5000
/** Milliseconds until the next check while the stream has no connection. */
const RECONNECTING = 1000

/** A server that does not end its turn in time gets the kept answers and all later ones. */
function waitForTurn(call: StreamCall): void {
  const look = (): void => {
    if (!call.isConnected?.()) return wait(RECONNECTING)
    call.stopWaiting = undefined
    call.server.handsOff = call.handsOff = false
    for (const answer of call.asked.values()) sendStraight(call, answer)
  }
  const wait = (time: number): void => {
    const timer = setTimeout(look, time)
    call.stopWaiting = () => clearTimeout(timer)
  }
  if (call.stopWaiting === undefined)
    wait(Math.max(0, (call.askedAt as number) + TURN_PATIENCE - now()))
}

function sendStraight(call: StreamCall, answer: WrittenMessage | undefined): void {
  if (answer === undefined) return
  call.answeredItselfAt = now()
  call.send(answer).catch(() => undefined)
}

/** Milliseconds after which a waiting server gets a request, so that it keeps the stream. */
const SIGN_OF_LIFE = 45_000

/** Waits for the answers to all open requests; `undefined`: none, or a sign of life is due. */
export async function answersOf(
  call: StreamCall,
  signal: AbortSignal
): Promise<readonly WrittenMessage[] | undefined> {
  const { idleTimeout, minTimeout } = call.settings
  const answers = (): unknown[] => [...call.asked.values()]
  const isComplete = (): boolean => !answers().includes(undefined)
  const enough = new AbortController()
  call.onAnswer = () => {
    // `isComplete` is also true if no request is open any more.
    if (isComplete() || signal.aborted) enough.abort()
  }
  call.onAnswer()
  const patience = Math.min(Math.max(idleTimeout ?? Infinity, minTimeout), SIGN_OF_LIFE)
  await pause(patience, enough.signal).catch(() => undefined)
  return isComplete() && call.asked.size > 0 ? (answers() as WrittenMessage[]) : undefined
}
