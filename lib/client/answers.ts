// The client's answers to the server's requests, kept until the server waits for them (SEP-1335, multi-turn requests).
import { isResponse, type Message, type RequestId } from '../core/json-rpc.js'
import type { Call } from './stream-request.js'

/** Takes the answers of a POST to the calls whose streams have asked for them. `false`: some are not for those; they go to the server as they are. */
export function keepAnswers(calls: Iterable<Call>, messages: readonly Message[], scope: string): boolean {
  const kept = new Map<Message, Call>()
  for (const message of messages) {
    const asking = [...calls].filter(call => isResponse(message) && call.scope === scope && call.asked.has(message.id))
    // Without a session, each call may have ids of its own: whoever has asked first is answered first.
    const call = asking.find(({ asked }) => asked.get(message.id as RequestId) === undefined) ?? asking[0]
    if (call !== undefined) kept.set(message, call)
  }
  const isKept = messages.length > 0 && kept.size === messages.length && [...kept.values()].every(call => call.handsOff)
  for (const [message, call] of kept) {
    if (isKept) call.asked.set(message.id as RequestId, message)
    else {
      call.asked.delete(message.id as RequestId)
      call.answeredItselfAt = Date.now()
    }
    call.onAnswer?.()
  }
  return isKept
}

/** All answers to what a stream has asked; `undefined` where there are none to give, or some are missing still when the patience, in milliseconds, is over. */
export async function answersOf(
  call: Call,
  patience: number,
  signal: AbortSignal
): Promise<readonly Message[] | undefined> {
  const isComplete = (): boolean => ![...call.asked.values()].includes(undefined)
  let timer
  await new Promise<void>(resolve => {
    timer = setTimeout(resolve, patience)
    call.onAnswer = () => {
      // Also where nothing is left to wait for.
      if (isComplete() || signal.aborted) resolve()
    }
    call.onAnswer()
  })
  clearTimeout(timer)
  return isComplete() && call.asked.size > 0 ? ([...call.asked.values()] as Message[]) : undefined
}
