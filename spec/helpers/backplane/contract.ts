// What every backplane keeps: a suite for each of them.
import { afterEach, describe, expect, it } from '@jest/globals'
import type { Backplane } from '../../../lib/backplane/types.js'

export interface ContractOptions {
  /** Two ends of one service, both up. */
  readonly join: () => Promise<readonly [Backplane, Backplane]>
  /** It may lose, double and reorder messages. */
  readonly isFlaky?: boolean
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const text = (value: unknown): string => new TextDecoder().decode(value as Uint8Array)

/** The channels that a contract listens to are ended by itself; what `join` opens is the caller's. */
export function describeBackplane(name: string, { join, isFlaky = false }: ContractOptions): void {
  describe(`the contract of a backplane, kept by ${name}`, () => {
    let unlisten: (() => void)[] = []
    afterEach(() => {
      for (const end of unlisten.splice(0)) end()
      unlisten = []
    })

    /** Both listen, as connections are there only for those who do. */
    async function joined(): Promise<{ ends: readonly [Backplane, Backplane]; heard: string[] }> {
      const ends = await join()
      const heard: string[] = []
      unlisten.push(await ends[0].listen('first', message => heard.push(text(message))))
      unlisten.push(await ends[1].listen('second', () => undefined))
      for (const end of ends) await isUp(end)
      return { ends, heard }
    }

    /** Sends until the other end has heard `wanted`, as messages may be lost. */
    async function until(send: () => void, isDone: () => boolean, tries = 500): Promise<void> {
      for (let i = 0; i < tries && !isDone(); i++) {
        send()
        await new Promise(resolve => setTimeout(resolve, 10))
      }
    }

    it('hands a message to who listens to its channel, and to nobody else', async () => {
      const { ends, heard } = await joined()
      await until(
        () => {
          ends[1].send('third', bytes('not for you'))
          ends[1].send('first', bytes('for you'))
        },
        () => heard.length > 0
      )
      expect(new Set(heard)).toEqual(new Set(['for you']))
    })

    it('hands over any bytes as they are', async () => {
      const all = Uint8Array.from({ length: 70_000 }, (_, i) => i % 256)
      const ends = await join()
      const heard: Uint8Array[] = []
      unlisten.push(await ends[0].listen('bytes', message => heard.push(Uint8Array.from(message))))
      unlisten.push(await ends[1].listen('other', () => undefined))
      for (const end of ends) await isUp(end)
      await until(
        () => ends[1].send('bytes', all),
        () => heard.length > 0
      )
      expect(Buffer.compare(heard[0] as Uint8Array, all)).toBe(0)
    })

    if (!isFlaky)
      it('keeps the order of what one end sends', async () => {
        const { ends, heard } = await joined()
        await until(
          () => ends[1].send('first', bytes('begin')),
          () => heard.includes('begin')
        )
        heard.length = 0
        for (let i = 0; i < 100; i++) ends[1].send('first', bytes(`${i}`))
        await until(
          () => undefined,
          () => heard.includes('99')
        )
        expect(heard.filter(one => one !== 'begin')).toEqual(
          Array.from({ length: 100 }, (_, i) => `${i}`)
        )
      })

    it('hands nothing over any more once the channel was left', async () => {
      const { ends, heard } = await joined()
      await until(
        () => ends[1].send('first', bytes('before')),
        () => heard.length > 0
      )
      const again: string[] = []
      unlisten.push(await ends[0].listen('again', message => again.push(text(message))))
      const [leave] = unlisten
      leave?.()
      // What was on its way may still come.
      await until(
        () => undefined,
        () => false,
        5
      )
      heard.length = 0
      await until(
        () => {
          ends[1].send('first', bytes('after'))
          ends[1].send('again', bytes('after'))
        },
        () => again.length > 0
      )
      expect(heard).toEqual([])
    })

    it('shares keys: set, get, set only where there is none, delete', async () => {
      const {
        ends: [a, b]
      } = await joined()
      const key = `key ${Math.random()}`
      expect(await a.command(['GET', key])).toBeNull()
      await a.command(['SET', key, bytes('one'), 'PX', 60_000])
      expect(text(await b.command(['GET', key]))).toBe('one')
      expect(await b.command(['SET', key, bytes('two'), 'PX', 60_000, 'NX'])).toBeNull()
      await b.command(['SET', key, bytes('three'), 'PX', 60_000])
      expect(text(await a.command(['GET', key]))).toBe('three')
      await a.command(['DEL', key])
      expect(
        await b.command(['SET', key, Uint8Array.of(0, 255, 128), 'PX', 60_000, 'NX'])
      ).not.toBeNull()
      expect([...((await a.command(['GET', key])) as Uint8Array)]).toEqual([0, 255, 128])
      await a.command(['DEL', key])
    })

    it('lets a key go when its time is over', async () => {
      const {
        ends: [a]
      } = await joined()
      const key = `short ${Math.random()}`
      await a.command(['SET', key, bytes('one'), 'PX', 20])
      let found: unknown = 'there'
      for (let i = 0; i < 100 && found !== null; i++) {
        await until(
          () => undefined,
          () => false,
          1
        )
        found = await a.command(['GET', key])
      }
      expect(found).toBeNull()
      expect(await a.command(['GET', key])).toBeNull()
    })

    it('says to both ends alike which server has the keys, if it can', async () => {
      const { ends } = await joined()
      const [one, other] = await Promise.all(ends.map(end => end.command(['ID'])))
      expect(one === null || typeof one === 'string').toBe(true)
      expect(other).toBe(one)
    })

    it('says at once whether it is up', async () => {
      const {
        ends: [a]
      } = await joined()
      const told: boolean[] = []
      a.onUp(isUp => told.push(isUp))()
      expect(told).toEqual([true])
    })
  })
}

function isUp(end: Backplane): Promise<void> {
  return new Promise(resolve => {
    let hasResolved = false
    const off = end.onUp(up => {
      if (!up || hasResolved) return
      hasResolved = true
      resolve()
      queueMicrotask(() => off())
    })
  })
}
