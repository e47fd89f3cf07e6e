// What every directory keeps: a suite for each of them.
import { describe, expect, it } from '@jest/globals'
import {
  type Directory,
  type Elsewhere,
  type Here,
  type LookUps,
  type NameKind,
  UNKNOWN
} from '../../lib/streams/directory.js'

/** It makes no difference what is found. */
type Thing = never

type LookUp = (name: string) => Here<Thing, Thing>

/** One instance: its directory, and what the specs put into it. */
export interface DirectoryMember {
  readonly directory: Directory
  readonly newId: () => string
  readonly sessionOpened: (id: string) => void
  readonly sessionEnded: (id: string) => void
  /** The instance ends, and what it has with it. */
  readonly leave: () => Promise<void>
}

export interface DirectoryOptions {
  /** Instances that there are: with two of them, it must find what the other one has. */
  readonly members: 1 | 2
}

/** `create` makes an instance on the look-ups that it is given. */
export function describeDirectory(
  name: string,
  create: (lookUps: readonly LookUps[]) => Promise<readonly DirectoryMember[]>,
  { members }: DirectoryOptions
): void {
  const things = (): { kept: Map<string, Here<Thing, Thing>>; lookUps: LookUps } => {
    const kept = new Map<string, Here<Thing, Thing>>()
    const lookUpOf =
      (kind: string): LookUp =>
      name =>
        kept.get(`${kind} ${name}`) ?? UNKNOWN
    return { kept, lookUps: { stream: lookUpOf('stream'), ticket: lookUpOf('ticket') } }
  }

  async function joined() {
    const made = Array.from({ length: members }, things)
    const joined = await create(made.map(({ lookUps }) => lookUps))
    return joined.map((member, i) => ({
      ...member,
      /** Puts something under a new name of this instance. */
      put(kind: string, handle: Here<Thing, Thing>): string {
        const id = member.newId()
        made[i]!.kept.set(`${kind} ${id}`, handle)
        return id
      },
      drop: (kind: string, id: string) => made[i]!.kept.delete(`${kind} ${id}`)
    }))
  }
  const thing = (text: string): Thing => ({ text }) as Thing
  const local = (text: string): Here<Thing, Thing> => ({ kind: 'local', value: thing(text) })
  const HERE = { kind: 'here' }
  const ID_KINDS: readonly NameKind[] = ['stream', 'ticket', 'token', 'task']

  describe(`the contract of a directory, kept by ${name}`, () => {
    it('finds what is here, and it is the very thing', async () => {
      const [one] = await joined()
      const handle = local('running')
      const id = one!.put('stream', handle)
      expect(await one!.directory.find('stream', id)).toBe(handle)
      expect(one!.directory.here.stream(id)).toBe(handle)
    })

    it('gives what is left of what is over', async () => {
      const [one] = await joined()
      const id = one!.put('ticket', { kind: 'ended', value: thing('left') })
      expect(await one!.directory.find('ticket', id)).toEqual({
        kind: 'ended',
        value: thing('left')
      })
    })

    it('does not take a name of one kind for one of another', async () => {
      const [one] = await joined()
      const id = one!.put('ticket', local('a download'))
      expect(await one!.directory.find('stream', id)).toEqual(UNKNOWN)
    })

    it('knows nothing any more of what has gone without a trace', async () => {
      const [one] = await joined()
      const id = one!.put('stream', local('short'))
      one!.drop('stream', id)
      expect(await one!.directory.find('stream', id)).toEqual(UNKNOWN)
    })

    it.each(['', 'x', '__proto__', 'constructor', 'x'.repeat(100_000), '\0'.repeat(21)])(
      'takes a name that nobody has made for unknown, and for its own to answer: %#',
      async strange => {
        const [one] = await joined()
        expect(await one!.directory.find('stream', strange)).toEqual(UNKNOWN)
        for (const kind of ID_KINDS) expect(one!.directory.where(kind, strange)).toEqual(HERE)
      }
    )

    it('says at once that its own ids lead here, whether or not anything is under them', async () => {
      const [one] = await joined()
      for (const kind of ID_KINDS) {
        expect(one!.directory.where(kind, one!.newId())).toEqual(HERE)
        expect(one!.directory.where(kind, one!.put(kind, local('any')))).toEqual(HERE)
      }
    })

    it('has sessions that were opened here, and those that nobody has opened', async () => {
      const [one] = await joined()
      one!.sessionOpened('a session')
      expect(one!.directory.where('session', 'a session')).toEqual(HERE)
      expect(await one!.directory.where('session', 'of nobody')).toEqual(HERE)
      one!.sessionEnded('a session')
      expect(await one!.directory.where('session', 'a session')).toEqual(HERE)
    })

    it('takes a key that nobody has, once and for all', async () => {
      const [one] = await joined()
      const claims = await Promise.all(
        Array.from({ length: 5 }, () => one!.directory.claim('a key', 'alice'))
      )
      expect(claims).toEqual(claims.map(() => HERE))
      expect(one!.directory.claim('a key', 'alice')).toEqual(HERE)
    })

    if (members === 1) return

    it('says which instance an id of another one leads to, whatever it stands for', async () => {
      const [one, other] = await joined()
      const id = other!.put('stream', local('elsewhere'))
      const found = await one!.directory.find('stream', id)
      expect(found).toEqual({ kind: 'remote', instance: expect.any(String) })
      for (const kind of ID_KINDS)
        expect(await one!.directory.where(kind, other!.newId())).toEqual(found)
      const back = (await other!.directory.where('stream', one!.newId())) as Elsewhere
      expect(back.kind).toBe('remote')
      expect(back).not.toEqual(found)
    })

    it('finds sessions that another instance has opened, until they end', async () => {
      const [one, other] = await joined()
      const there = await one!.directory.where('stream', other!.newId())
      other!.sessionOpened('elsewhere')
      expect(await one!.directory.where('session', 'elsewhere')).toEqual(there)
      expect(other!.directory.where('session', 'elsewhere')).toEqual(HERE)
      other!.sessionEnded('elsewhere')
      expect(await one!.directory.where('session', 'elsewhere')).toEqual(HERE)
    })

    it('lets one instance alone have a key, whoever asks first', async () => {
      const [one, other] = await joined()
      const claims = await Promise.all([
        one!.directory.claim('both want it', 'alice'),
        other!.directory.claim('both want it', 'alice')
      ])
      expect(claims.map(({ kind }) => kind).sort()).toEqual(['here', 'remote'])
      const again = await Promise.all([
        one!.directory.claim('both want it', 'alice'),
        other!.directory.claim('both want it', 'alice')
      ])
      expect(again).toEqual(claims)
    })

    it('finds a key without taking it, and lets go of one whose call has not begun', async () => {
      const [one, other] = await joined()
      expect(await one!.directory.where('key', 'no key')).toEqual(HERE)
      expect(await other!.directory.claim('no key', 'alice')).toEqual(HERE)
      expect((await one!.directory.where('key', 'no key')).kind).toBe('remote')
      other!.directory.keyForgotten('no key')
      expect(await one!.directory.where('key', 'no key')).toEqual(HERE)
      expect(await one!.directory.claim('no key', 'alice')).toEqual(HERE)
    })

    it('says of what an instance had that has left that it is lost', async () => {
      const [one, other] = await joined()
      const id = other!.put('stream', local('going'))
      const { instance } = (await one!.directory.where('stream', id)) as { instance: string }
      other!.sessionOpened('going')
      await other!.directory.claim('going', 'alice')
      await other!.leave()
      const lost = { kind: 'lost', instance }
      // That it lives was heard just now, and is believed for a while.
      await until(async () => (await one!.directory.where('stream', id)).kind === 'lost')
      expect(await one!.directory.find('stream', id)).toEqual(lost)
      expect(await one!.directory.where('session', 'going')).toEqual(lost)
      expect(await one!.directory.claim('going', 'alice')).toEqual(lost)
    })
  })
}

async function until(isSo: () => Promise<boolean>, tries = 500): Promise<void> {
  for (let i = 0; i < tries && !(await isSo()); i++)
    await new Promise(resolve => setTimeout(resolve, 10))
}
