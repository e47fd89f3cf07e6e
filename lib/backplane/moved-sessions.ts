// Sessions that were begun again here because their instance leaves: calls that have begun there
// still run there, and what their client says is for them, too.
import { isRequest, isResponse, type Message } from '../protocol/json-rpc.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import { FairStore } from '../streams/fair-store.js'
import type { Context } from '../routes/route.js'
import { UNUSED } from './relay.js'
import type { InstanceLink } from './instance-link.js'
import { encodeHead, requestHead } from './relay-head.js'

export class MovedSessions {
  readonly #link: InstanceLink
  /** The instance that had it before. */
  readonly #before: FairStore<{ readonly tag: string }>

  /** @param most how many are remembered. */
  constructor(link: InstanceLink, most: number) {
    this.#link = link
    this.#before = new FairStore({ maxSize: most })
  }

  add(session: string, owner: string, tag: string): void {
    this.#before.set(session, owner, { tag })
  }

  /** The instance that may still run calls of a session; `undefined`: there is none. */
  before(session: string | undefined): string | undefined {
    if (session === undefined) return undefined
    const tag = this.#before.peek(session)?.tag
    if (tag === undefined || !this.#link.hasLeft(tag)) return tag
    this.#before.delete(session)
    return undefined
  }

  /** Whether all of a POST is answers to what that instance has asked. */
  isForBefore({ messages, instance }: Context): boolean {
    return (
      messages.length > 0 &&
      messages.every(message => isResponse(message) && !isAskedHere(message, instance))
    )
  }

  /** Tells that instance as well: of notifications, as of a cancelled call, and of the end. */
  tell({ req, messages, text, body, isUnread, instance }: Context, tag: string): void {
    const isForHere =
      messages.length > 0 && messages.every(message => isAskedHere(message, instance))
    if (isUnread || isForHere || messages.some(isRequest)) return
    const copy = text ?? (body === undefined ? undefined : JSON.stringify(body))
    const exchange = this.#link.open(tag, UNUSED)
    exchange.write(encodeHead(requestHead(req, 'named', copy)))
    if (copy !== undefined) exchange.write(Buffer.from(copy))
    exchange.end()
  }
}

/** What was asked here while the other instance ran calls as well: its id says so. */
function isAskedHere(message: Message, { table }: Context['instance']): boolean {
  if (!isResponse(message)) return false
  return (
    parseForeignId(message.id) !== undefined || table.index.findPinged(message.id) !== undefined
  )
}
