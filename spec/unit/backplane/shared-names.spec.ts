// What instances share by name: how long it lasts, and what it costs.
import { describe, expect, it, jest } from '@jest/globals'
import { Envelopes } from '../../../lib/backplane/envelope.js'
import { SharedNames } from '../../../lib/backplane/shared-names.js'
import { Hub } from '../../helpers/backplane/memory.js'

const HOUR = 60 * 60 * 1000
const settled = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

function names(
  hub: Hub,
  tag: string,
  secrets = ['the first secret of all'],
  max = 1000
): SharedNames {
  return new SharedNames(hub.join(), new Envelopes(secrets), tag, max)
}

async function take(own: SharedNames, time: number): Promise<void> {
  await own.claim('k', 'a key', time)
  own.hold('k', 'a key', 'alice', time)
}

describe('names that instances share', () => {
  it('are found that were claimed under the secret before', async () => {
    const hub = new Hub()
    await names(hub, 'aaaaa').claim('k', 'a key', HOUR)
    const both = ['another secret of ours', 'the first secret of all']
    expect(await names(hub, 'bbbbb', both).claim('k', 'a key', HOUR)).toBe('aaaaa')
  })

  it('are written again for as long as a session lasts, and calls are not', async () => {
    const time = jest.spyOn(performance, 'now').mockReturnValue(0)
    try {
      const hub = new Hub()
      const own = names(hub, 'aaaaa')
      own.add('s', 'a session', 'alice', 24 * HOUR)
      own.add('s', 'one that ended', 'alice', 24 * HOUR)
      await take(own, 24 * HOUR)
      own.delete('s', 'one that ended')
      await settled()
      hub.flush()
      hub.commands.length = 0
      own.tick()
      expect(hub.commands).toEqual([])
      time.mockReturnValue(1.1 * HOUR)
      own.tick()
      own.tick()
      await settled()
      expect(hub.commands).toEqual(['SET'])
      expect(await names(hub, 'bbbbb').find('s', 'a session')).toBe('aaaaa')
    } finally {
      time.mockRestore()
    }
  })

  it('are written for as long as it takes, where that is refused', async () => {
    const hub = new Hub()
    const [own, other] = [names(hub, 'aaaaa'), names(hub, 'bbbbb')]
    hub.isFull = true
    own.add('s', 'a session', 'alice', HOUR)
    for (let i = 0; i < 3; i++) {
      await settled()
      own.tick()
    }
    hub.isFull = false
    await settled()
    own.tick()
    await settled()
    expect(await other.find('s', 'a session')).toBe('aaaaa')
  })

  it('are deleted by who has them only', async () => {
    const hub = new Hub()
    const [own, other] = [names(hub, 'aaaaa'), names(hub, 'bbbbb')]
    own.add('s', 'a session', 'alice', HOUR)
    await settled()
    other.delete('s', 'a session')
    expect(await other.find('s', 'a session')).toBe('aaaaa')
    own.delete('s', 'a session')
    expect(await other.find('s', 'a session')).toBeUndefined()
    expect(own.has('s', 'a session')).toBe(false)
  })

  it('are ours where whoever had them has lost them before we could read who it is', async () => {
    const backplane = Object.assign(new Hub().join(), { command: async () => null })
    const envelopes = new Envelopes(['the first secret of all'])
    const own = new SharedNames(backplane, envelopes, 'aaaaa', 100)
    expect(await own.claim('k', 'a key', HOUR)).toBe('aaaaa')
  })

  it('are all written again at once, however many there are, by a hundred at a time', async () => {
    const hub = new Hub()
    const own = names(hub, 'aaaaa', undefined, 2000)
    for (let i = 0; i < 1950; i++) own.add('s', `session ${i}`, 'alice', HOUR)
    await settled()
    hub.flush()
    own.writeAgain()
    own.tick()
    const written = [hub.keys.size]
    while (hub.keys.size < 1950) {
      await settled()
      written.push(hub.keys.size)
    }
    expect(written).toEqual(Array.from({ length: 20 }, (_, i) => Math.min((i + 1) * 100, 1950)))
  })

  it('are written again no faster than they are taken', async () => {
    const open: (() => void)[] = []
    let isSlow = false
    const command = (): Promise<unknown> =>
      isSlow ? new Promise(resolve => open.push(() => resolve('OK'))) : Promise.resolve('OK')
    const backplane = Object.assign(new Hub().join(), { command })
    const own = new SharedNames(backplane, new Envelopes(backplane.secrets), 'aaaaa', 6000)
    for (let i = 0; i < 6000; i++) own.add('s', `session ${i}`, 'alice', HOUR)
    await settled()
    isSlow = true
    own.writeAgain()
    for (let i = 0; i < 100; i++) {
      own.tick()
      await settled()
    }
    expect(open).toHaveLength(5000)
    for (const answer of open.splice(0, 5000).slice(0, 100)) answer()
    for (let i = 0; i < 10; i++) await settled()
    expect(open).toHaveLength(100)
  })

  it('are written again with a later tick where they are refused, and not before', async () => {
    const hub = new Hub()
    const own = names(hub, 'aaaaa')
    for (let i = 0; i < 1000; i++) own.add('s', `session ${i}`, 'alice', HOUR)
    await settled()
    hub.flush()
    hub.isFull = true
    hub.commands.length = 0
    own.writeAgain()
    own.tick()
    for (let i = 0; i < 10; i++) await settled()
    expect(hub.commands).toHaveLength(100)
    hub.isFull = false
    own.tick()
    for (let i = 0; i < 20; i++) await settled()
    expect(hub.keys.size).toBe(1000)
  })

  it('are not written again that had to make room for others', async () => {
    const hub = new Hub()
    const own = names(hub, 'aaaaa', undefined, 10)
    for (let i = 0; i < 20; i++) own.add('s', `session ${i}`, 'alice', HOUR)
    await settled()
    hub.flush()
    own.writeAgain()
    own.tick()
    await settled()
    expect(hub.keys.size).toBe(10)
  })

  it('are known not to be there for a second, or until they are here', () => {
    const own = names(new Hub(), 'aaaaa')
    own.noteAbsent('s', 'one', 0)
    own.noteAbsent('s', 'two', 500)
    expect([999, 1000].map(at => own.isAbsent('s', 'one', at))).toEqual([true, false])
    own.noteAbsent('s', 'one', 900)
    expect([1499, 1500, 1899].map(at => own.isAbsent('s', 'two', at))).toEqual([true, false, false])
    expect(own.isAbsent('s', 'one', 1899)).toBe(true)
    expect(own.isAbsent('k', 'one', 1899)).toBe(false)
    own.add('s', 'one', 'alice', HOUR)
    expect(own.isAbsent('s', 'one', 1000)).toBe(false)
  })

  it('are read only as an instance has written them', async () => {
    const hub = new Hub()
    const envelopes = new Envelopes(['the first secret of all'])
    const own = names(hub, 'aaaaa')
    const key = `s:${envelopes.nameOf('a session')}`
    const written = async (kind: number, text: string, context = key): Promise<unknown> => {
      const value = envelopes.seal(kind, 0, Buffer.from(text), context)
      await hub.join().command(['SET', key, value, 'PX', HOUR])
      return own.find('s', 'a session')
    }
    expect(await written(16, 'bbbbb')).toBe('bbbbb')
    expect(await written(17, 'bbbbb')).toBeUndefined()
    expect(await written(16, 'bbbbb', 's:another')).toBeUndefined()
    expect(await written(16, 'bbbbbb')).toBeUndefined()
  })
})
