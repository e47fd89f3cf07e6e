// Sessions that were begun again here because their instance leaves: calls that have begun there,
// or at one that had left before, still run there, and what their client says is for them, too.
import { isRequest, isResponse, type Message, objectIn } from '../protocol/json-rpc.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import { FairStore } from '../streams/fair-store.js'
import type { Context } from '../routes/route.js'
import { UNUSED } from './relay.js'
import type { InstanceLink } from './instance-link.js'
import { encodeHead, requestHead } from './relay-head.js'

export class MovedSessions {
  readonly #link: InstanceLink
  /** Those that have had it before, the earliest first. */
  readonly #before: FairStore<readonly string[]>
  /** Sessions of which it is being found out whether they are taken here. */
  readonly #taking = new Map<string, Promise<unknown>>()

  /** @param most how many are remembered. */
  constructor(link: InstanceLink, most: number) {
    this.#link = link
    this.#before = new FairStore({ maxSize: most })
  }

  /** It is begun again here. Others may have had it before those that have handed it back. */
  async take(session: string, owner: string, handedBack: readonly string[]): Promise<void> {
    const { kept, tag: own } = this.#link
    const name = `before ${session}`
    const known = await kept.find(name).catch(() => undefined)
    const all = new Set([...this.before(session), ...tagsIn(known?.head), ...handedBack])
    all.delete(own)
    const states = await Promise.all([...all].map(tag => this.#link.look(tag)))
    const tags = [...all].filter((_tag, i) => states[i] !== 'gone').slice(-MOST_BEFORE)
    if (tags.length === 0) return
    this.#before.set(session, owner, tags)
    kept.keep(name, { tags }, [], BEFORE_FOR)
  }

  /** Others may know already that a session is taken here, before this instance does. */
  noteTaking(session: string, taken: Promise<unknown>): void {
    const all = Promise.all([this.#taking.get(session), taken])
    const over = (): void => {
      if (this.#taking.get(session) === all) this.#taking.delete(session)
    }
    this.#taking.set(session, all)
    all.then(over, over)
  }

  taking(session: string | undefined): Promise<undefined> | undefined {
    const nothing = (): undefined => undefined
    return session === undefined ? undefined : this.#taking.get(session)?.then(nothing, nothing)
  }

  /** The instances that may still run calls of a session, the earliest first. */
  before(session: string | undefined): readonly string[] {
    const known = session === undefined ? undefined : this.#before.peek(session)
    if (session === undefined || known === undefined) return NONE
    const left = known.filter(tag => !this.#link.hasLeft(tag))
    if (left.length === 0) this.#before.delete(session)
    return left
  }

  /**
   * Whether all of a POST is answers to what the earliest of them has asked: what is asked later
   * has ids that say by whom.
   */
  isForBefore({ messages, instance }: Context): boolean {
    return (
      messages.length > 0 &&
      messages.every(message => isResponse(message) && !isAskedHere(message, instance))
    )
  }

  /** Tells them as well: of notifications, as of a cancelled call, and of the end. */
  tell({ req, session, messages, text, body, isUnread, instance }: Context): void {
    const before = this.before(session)
    const isForHere =
      messages.length > 0 && messages.every(message => isAskedHere(message, instance))
    if (before.length === 0 || isUnread || isForHere || messages.some(isRequest)) return
    const copy = text ?? (body === undefined ? undefined : JSON.stringify(body))
    for (const tag of before) {
      const exchange = this.#link.open(tag, UNUSED)
      exchange.write(encodeHead(requestHead(req, 'named', copy)))
      if (copy !== undefined) exchange.write(Buffer.from(copy))
      exchange.end()
    }
  }
}

const NONE: readonly string[] = []
/** Instances that are remembered for one session. */
const MOST_BEFORE = 10
/** Milliseconds for which others can find them. */
const BEFORE_FOR = 60 * 60 * 1000

function tagsIn(head: unknown): readonly string[] {
  const { tags } = objectIn(head)
  return Array.isArray(tags) ? tags.filter(tag => typeof tag === 'string') : NONE
}

/** What was asked here while the other instance ran calls as well: its id says so. */
function isAskedHere(message: Message, { table }: Context['instance']): boolean {
  if (!isResponse(message)) return false
  return (
    parseForeignId(message.id) !== undefined || table.index.findPinged(message.id) !== undefined
  )
}
