// The directory of several instances. Ids name the instance that made them; for sessions and
// idempotency keys, each instance writes to the shared keys what it has.
import { now } from '../protocol/clock.js'
import {
  type Directory,
  type Elsewhere,
  type FoundAs,
  HERE,
  type LocalDirectory,
  type NameKind,
  type Place,
  type LookUps
} from '../streams/directory.js'
import { pause } from './epoch.js'
import type { InstanceLink } from './instance-link.js'
import { isInstanceId, type SharedNames, tagOf } from './shared-names.js'

interface SharedDirectorySettings {
  readonly forwardsSessions: boolean
  /** Milliseconds for which an idempotency key is remembered after its call was answered. */
  readonly keyTime: number
  /** Whether a session can be begun again where its instance is gone. */
  readonly mayBeRevived: (session: string) => boolean
}

type DirectoryLink = Pick<InstanceLink, 'tag' | 'look' | 'epoch' | 'isClosed'> & {
  readonly names: SharedNames
  readonly backplane: Pick<InstanceLink['backplane'], 'lease'>
}

/** Milliseconds that the key of a session lasts; it is written again every hour. */
const SESSION_TIME = 24 * 60 * 60 * 1000
/** Milliseconds for which an idempotency key belongs to an instance while its call still runs. */
const LONGEST_CALL = 24 * 60 * 60 * 1000
/** Milliseconds after which an unknown session is looked for again: it may be a new one. */
const LOOK_AGAIN = 100
/** Part of a lease for which that goes on; longer round trips may be too late. */
const OPENING = 1 / 6
/** Leases for which a look-up that fails is tried again. */
const PATIENCE = 2
/** Milliseconds until the second try, then doubled up to a part of a lease. */
const TRY_AGAIN = 20
const LONGEST_PAUSE = 1 / 6

const LOST = 'What instances share may be lost'
const UNREACHABLE: Place = { kind: 'unreachable' }

export class SharedDirectory implements Directory {
  readonly here: LookUps
  readonly #local: LocalDirectory
  readonly #link: DirectoryLink
  readonly #settings: SharedDirectorySettings

  constructor(local: LocalDirectory, link: DirectoryLink, settings: SharedDirectorySettings) {
    this.here = local.here
    this.#local = local
    this.#link = link
    this.#settings = settings
  }

  readonly sessionOpened = (id: string, owner: string): void => {
    if (this.#settings.forwardsSessions) this.#link.names.add('s', id, owner, SESSION_TIME)
  }

  readonly sessionEnded = (id: string): void => this.#link.names.delete('s', id)

  where(kind: NameKind, name: string, leaving: readonly string[] = []): Place | Promise<Place> {
    if (kind === 'session') return this.#whereSession(name, leaving)
    if (kind === 'key') return this.#whereKey(name)
    // A name in another form is no id of any instance: this one answers that it is unknown.
    return isInstanceId(name) ? this.#at(tagOf(name)) : HERE
  }

  claim(key: string, owner: string): Place | Promise<Place> {
    const { names, tag, epoch } = this.#link
    if (names.has('k', key)) return HERE
    return this.#patiently(async () => {
      const since = await epoch.whole()
      const holder =
        since === undefined ? await names.find('k', key) : await names.claim('k', key, LONGEST_CALL)
      if (holder !== undefined && holder !== tag) return holder
      await this.#believeAbsence(since)
      names.hold('k', key, owner, LONGEST_CALL)
      return tag
    })
  }

  keySettled(key: string, owner: string): void {
    this.#link.names.lasts('k', key, owner, this.#settings.keyTime)
  }

  keyForgotten(key: string): void {
    this.#link.names.delete('k', key)
  }

  async find<Kind extends keyof LookUps>(
    kind: Kind,
    name: string
  ): Promise<FoundAs<Kind> | Elsewhere> {
    const place = await this.where(kind, name)
    return place.kind === 'here' ? this.#local.find(kind, name) : place
  }

  #whereKey(key: string): Place | Promise<Place> {
    const { names, tag, epoch } = this.#link
    if (names.has('k', key)) return HERE
    return this.#patiently(async () => {
      const since = await epoch.whole()
      const found = await names.find('k', key)
      if (found === undefined) await this.#believeAbsence(since)
      return found ?? tag
    })
  }

  #whereSession(id: string, leaving: readonly string[]): Place | Promise<Place> {
    const { names, tag, epoch } = this.#link
    const isHere =
      !this.#settings.forwardsSessions || names.has('s', id) || names.isAbsent('s', id, now())
    if (isHere) return HERE
    const mayBeRevived = this.#settings.mayBeRevived(id)
    const place = this.#patiently(async () => {
      const since = await epoch.whole()
      const found = (await names.find('s', id)) ?? (await this.#findAgain(id))
      if (found !== undefined) return found
      await this.#believeAbsence(since)
      if (!mayBeRevived) names.noteAbsent('s', id, now())
      return tag
    })
    return mayBeRevived ? this.#reviver(id, place, leaving) : place
  }

  /**
   * Of the instances that are asked for a session whose own one is gone, or leaves, one begins it
   * again.
   */
  async #reviver(
    id: string,
    where: Place | Promise<Place>,
    leaving: readonly string[]
  ): Promise<Place> {
    const place = await where
    const isServed = place.kind === 'remote' && !leaving.includes(place.instance)
    if (isServed || place.kind === 'unreachable') return place
    const before = place.kind === 'here' ? '' : place.instance
    const { names } = this.#link
    const next = await this.#patiently(() =>
      names.claim('k', `revives ${id} ${before}`, SESSION_TIME)
    )
    return next.kind === 'here' ? next : this.#reviver(id, next, leaving)
  }

  /** No instance seems to have a name. Rejects if keys may be lost, and be written again. */
  async #believeAbsence(since: string | undefined): Promise<void> {
    const isSure = since !== undefined && (await this.#link.epoch.isStill(since))
    if (!isSure) throw new Error(LOST)
  }

  /** Its instance may still be writing the key. Each pause is as long as all before. */
  async #findAgain(id: string): Promise<string | undefined> {
    const { names, backplane } = this.#link
    const end = backplane.lease * OPENING
    for (let waited = 0; ;) {
      const time = Math.max(LOOK_AGAIN, Math.min(waited, end - waited))
      await pause(time)
      waited += time
      const found = await names.find('s', id)
      if (found !== undefined || waited >= end) return found
    }
  }

  /** Asks again for `PATIENCE` leases if `ask` rejects, unless the instance has left. */
  async #patiently(ask: () => Promise<string>): Promise<Place> {
    const { lease } = this.#link.backplane
    const end = now() + lease * PATIENCE
    for (let time = TRY_AGAIN; !this.#link.isClosed; time *= 2) {
      try {
        return await this.#at(await ask())
      } catch {
        if (now() >= end) break
        await pause(Math.min(time, lease * LONGEST_PAUSE))
      }
    }
    return UNREACHABLE
  }

  #at(instance: string): Place | Promise<Place> {
    return instance === this.#link.tag ? HERE : this.#lives(instance)
  }

  async #lives(instance: string): Promise<Place> {
    const liveness = await this.#link.look(instance)
    return { kind: liveness === 'gone' ? 'lost' : 'remote', instance }
  }
}
