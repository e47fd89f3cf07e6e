// What instances tell each other of sessions that may have to be begun again, by the backplane.
import { isOversizedId, type Message, objectIn, paramsOf } from '../../protocol/json-rpc.js'
import type { Keeper } from '../../streams/directory.js'

/** What a client has asked of its session, for as long as that lasts. */
interface Wishes {
  readonly level?: string | undefined
  readonly uris?: readonly string[] | undefined
}

type Change = (wishes: Wishes) => Wishes

/** Subscriptions that are remembered of one session. */
const MOST_URIS = 100

/** By method: what a request changes in the state of its session. */
const CHANGES = new Map<unknown, (params: Record<string, unknown>) => Change | undefined>([
  ['logging/setLevel', ({ level }) => (isShort(level) ? all => ({ ...all, level }) : undefined)],
  ['resources/subscribe', ({ uri }) => withUri(uri, true)],
  ['resources/unsubscribe', ({ uri }) => withUri(uri, false)]
])

function withUri(uri: unknown, isWanted: boolean): Change | undefined {
  if (!isShort(uri)) return undefined
  return ({ uris = [], ...others }) => {
    const rest = uris.filter(one => one !== uri)
    return { ...others, uris: isWanted ? [...rest, uri].slice(-MOST_URIS) : rest }
  }
}

function isShort(value: unknown): value is string {
  return typeof value === 'string' && !isOversizedId(value)
}

export class SharedMemory {
  readonly #keeper: Keeper
  /** Milliseconds. */
  readonly #time: number
  /** The latest change of each session that is being written. */
  readonly #writing = new Map<string, Promise<void>>()

  constructor(keeper: Keeper, time: number) {
    this.#keeper = keeper
    this.#time = time
  }

  noteEnded(session: string): void {
    this.#keeper.keep(`ended ${session}`, {}, [], this.#time)
  }

  async hasEnded(session: string): Promise<boolean> {
    return (await this.#keeper.find(`ended ${session}`)) !== undefined
  }

  /** If it is a request that the endpoint would have to get again. */
  noteWish(session: string, message: Message): void {
    const change = CHANGES.get(message.method)?.(paramsOf(message))
    if (change === undefined) return
    const written = (this.#writing.get(session) ?? Promise.resolve())
      .then(() => this.#wishesOf(session))
      .then(wishes => void this.#keeper.keep(`wishes ${session}`, change(wishes), [], this.#time))
      .catch(() => undefined)
      .then(() => {
        if (this.#writing.get(session) === written) this.#writing.delete(session)
      })
    this.#writing.set(session, written)
  }

  /** The requests that bring a new session of the endpoint to where the client has it. */
  async wishesAsRequests(
    session: string
  ): Promise<readonly { readonly method: string; readonly params: object }[]> {
    const { level, uris = [] } = await this.#wishesOf(session)
    const subscriptions = uris.map(uri => ({ method: 'resources/subscribe', params: { uri } }))
    if (level === undefined) return subscriptions
    return [{ method: 'logging/setLevel', params: { level } }, ...subscriptions]
  }

  async #wishesOf(session: string): Promise<Wishes> {
    return objectIn((await this.#keeper.find(`wishes ${session}`))?.head)
  }
}
