// What instances share by name: how long it lasts, and what it costs.
import { describe, expect, it, jest } from '@jest/globals'
import { Envelopes } from '../../../lib/backplane/envelope.js'
import { SharedNames } from '../../../lib/backplane/shared-names.js'
import { Hub } from '../../helpers/backplane/memory.js'

const HOUR = 60 * 60 * 1000
const settled = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

function names(hub: Hub, tag: string, secrets = ['the first secret of all']): SharedNames {
  return new SharedNames(hub.join(), new Envelopes(secrets), tag, 100)
}

describe('names that instances share', () => {
  it('are claimed with one command, and two where somebody has them', async () => {
    const hub = new Hub()
    expect(await names(hub, 'aaaaa').claim('k', 'a key', 'alice', HOUR)).toBe('aaaaa')
    expect(hub.commands).toEqual(['SET'])
    expect(await names(hub, 'bbbbb').claim('k', 'a key', 'alice', HOUR)).toBe('aaaaa')
    expect(hub.commands).toEqual(['SET', 'SET', 'GET'])
  })

  it('are found that were claimed under the secret before', async () => {
    const hub = new Hub()
    await names(hub, 'aaaaa').claim('k', 'a key', 'alice', HOUR)
    const both = ['another secret of ours', 'the first secret of all']
    expect(await names(hub, 'bbbbb', both).claim('k', 'a key', 'alice', HOUR)).toBe('aaaaa')
  })

  it('are written again for as long as a session lasts, and calls are not', async () => {
    const time = jest.spyOn(performance, 'now').mockReturnValue(0)
    try {
      const hub = new Hub()
      const own = names(hub, 'aaaaa')
      own.add('s', 'a session', 'alice', 24 * HOUR)
      own.add('s', 'one that ended', 'alice', 24 * HOUR)
      await own.claim('k', 'a key', 'alice', 24 * HOUR)
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
})
