// The directory of several instances. Ids of ours say by themselves which instance they are of;
// sessions and keys, which others have made, are names that the instances share.
import { setTimeout as pause } from 'node:timers/promises'
import { now } from '../protocol/clock.js'
import {
  type Directory,
  type Elsewhere,
  type FoundIn,
  HERE,
  type LocalDirectory,
  type NameKind,
  type Place,
  type Shelves
} from '../streams/directory.js'
import { isInstanceId, tagOf } from './instance-id.js'
import type { InstanceLink } from './instance-link.js'
import type { SharedNames } from './shared-names.js'

export interface SharedDirectorySettings {
  /** Sessions of other instances are sent to them. */
  readonly forwardsSessions: boolean
  /** Milliseconds for which a call under a key is remembered once it has been answered. */
  readonly keyTime: number
}

/** As much of an instance's place on the backplane as its directory needs. */
export type DirectoryLink = Pick<InstanceLink, 'tag' | 'look' | 'mayHaveLost' | 'isClosed'> & {
  readonly names: SharedNames
  readonly backplane: Pick<InstanceLink['backplane'], 'lease'>
}

/** Milliseconds for which a session is remembered: it is written again as long as it lasts. */
const SESSION_TIME = 24 * 60 * 60 * 1000
/** Milliseconds for which a call under a key is nobody else's before it has been answered. */
const LONGEST_CALL = 24 * 60 * 60 * 1000
/** Milliseconds after which a session is looked for once more that may have just been opened. */
const LOOK_AGAIN = 100
/** Part of a lease for which it is: a connection that takes longer counts as slow. */
const OPENING = 1 / 6
/** How long is waited for what the instances share, in leases, and how often it is asked in one. */
const PATIENCE = 2
const TRIES = 6

const LOST = 'What instances share may be lost'
const UNREACHABLE: Place = { kind: 'unreachable' }

export class SharedDirectory<S extends Shelves<S>> implements Directory<S> {
  readonly here: S
  readonly #local: LocalDirectory<S>
  readonly #link: DirectoryLink
  readonly #settings: SharedDirectorySettings

  constructor(local: LocalDirectory<S>, link: DirectoryLink, settings: SharedDirectorySettings) {
    this.here = local.here
    this.#local = local
    this.#link = link
    this.#settings = settings
  }

  /** A session has been opened at this instance. */
  readonly sessionOpened = (id: string, owner: string): void => {
    if (this.#settings.forwardsSessions) this.#link.names.add('s', id, owner, SESSION_TIME)
  }

  readonly sessionEnded = (id: string): void => this.#link.names.delete('s', id)

  where(kind: NameKind, name: string): Place | Promise<Place> {
    if (kind === 'session') return this.#whereSession(name)
    if (kind === 'key') return this.#whereKey(name)
    // What has not the form of our ids is of nobody.
    return isInstanceId(name) ? this.#at(tagOf(name)) : HERE
  }

  claim(key: string, owner: string): Place | Promise<Place> {
    const { names, tag } = this.#link
    if (names.has('k', key)) return HERE
    return this.#patiently(async () => {
      const holder = await names.claim('k', key, LONGEST_CALL)
      if (holder !== tag) return holder
      // Only now, as it may be lost until then. Who has it may be writing it again, over ours.
      await this.#believeAbsence()
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

  async find<K extends keyof S & NameKind>(
    kind: K,
    name: string
  ): Promise<FoundIn<S, K> | Elsewhere> {
    const place = await this.where(kind, name)
    return place.kind === 'here' ? this.#local.find(kind, name) : place
  }

  #whereKey(key: string): Place | Promise<Place> {
    const { names, tag } = this.#link
    if (names.has('k', key)) return HERE
    return this.#patiently(async () => {
      const found = await names.find('k', key)
      if (found === undefined) await this.#believeAbsence()
      return found ?? tag
    })
  }

  #whereSession(id: string): Place | Promise<Place> {
    const { names, tag } = this.#link
    const isHere =
      !this.#settings.forwardsSessions || names.has('s', id) || names.isAbsent('s', id, now())
    if (isHere) return HERE
    return this.#patiently(async () => {
      const found = (await names.find('s', id)) ?? (await this.#findAgain(id))
      if (found !== undefined) return found
      await this.#believeAbsence()
      names.noteAbsent('s', id, now())
      return tag
    })
  }

  /** Rejects where who has a name may be about to write it again. */
  async #believeAbsence(): Promise<void> {
    if (await this.#link.mayHaveLost()) throw new Error(LOST)
  }

  /** Its owner may be about to say so: each pause is as long as all before it. */
  async #findAgain(id: string): Promise<string | undefined> {
    const { names, backplane } = this.#link
    const end = backplane.lease * OPENING
    for (let waited = 0; ;) {
      const time = Math.max(LOOK_AGAIN, Math.min(waited, end - waited))
      await pause(time, undefined, { ref: false })
      waited += time
      const found = await names.find('s', id)
      if (found !== undefined || waited >= end) return found
    }
  }

  /**
   * What cannot be known at the moment is asked again for a while; who has left the others does not
   * get to know it any more.
   */
  async #patiently(ask: () => Promise<string>): Promise<Place> {
    const { lease } = this.#link.backplane
    for (let left = PATIENCE * TRIES; left > 0 && !this.#link.isClosed; left--) {
      try {
        return await this.#at(await ask())
      } catch {
        await pause(lease / TRIES, undefined, { ref: false })
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
