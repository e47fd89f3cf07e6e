// What any instance finds by its name: how much of it, and for how long.
import { describe, expect, it } from '@jest/globals'
import { Envelopes } from '../../../lib/backplane/envelope.js'
import { KeptValues } from '../../../lib/backplane/kept-values.js'
import { Hub } from '../../helpers/backplane/memory.js'

const SECRET = 'the first secret of all'
const MEBIBYTE = 1024 * 1024
const bytes = (size: number): Uint8Array => new Uint8Array(size)

describe('a value that is kept for the other instances', () => {
  it('is found whole, by any of the secrets, until it is deleted', async () => {
    const hub = new Hub()
    const kept = new KeptValues(hub.join(), new Envelopes([SECRET]))
    const chunks = [Buffer.from('one'), Buffer.from('two')]
    expect(kept.keep('a name', { kind: 'ünicode' }, chunks, 1000)).toBe(true)
    await kept.whenSaved()
    const other = new KeptValues(hub.join(), new Envelopes(['another secret of ours', SECRET]))
    const found = await other.find('a name')
    expect(found?.head).toEqual({ kind: 'ünicode' })
    expect(Buffer.from(found!.bytes).toString()).toBe('onetwo')
    expect(await other.find('another name')).toBeUndefined()
    kept.delete('a name')
    expect(await other.find('a name')).toBeUndefined()
  })

  it('lasts a millisecond at least, and whole ones', async () => {
    const hub = new Hub()
    const backplane = hub.join()
    const times: unknown[] = []
    backplane.command = async command => times.push(command[4])
    const kept = new KeptValues(backplane, new Envelopes([SECRET]))
    for (const time of [-1, 0, 0.5, 1.5, 2000]) kept.keep('a name', {}, [], time)
    expect(times).toEqual([1, 1, 1, 2, 2000])
  })

  it('is 4 MiB at most, and 32 MiB are on their way', async () => {
    const hub = new Hub()
    const backplane = hub.join()
    const answers: (() => void)[] = []
    backplane.command = () => new Promise(resolve => answers.push(() => resolve('OK')))
    const kept = new KeptValues(backplane, new Envelopes([SECRET]))
    expect(kept.keep('too much', {}, [bytes(4 * MEBIBYTE), bytes(1)], 1000)).toBe(false)
    for (let i = 0; i < 8; i++)
      expect(kept.keep(`${i}`, {}, [bytes(3 * MEBIBYTE), bytes(MEBIBYTE)], 1000)).toBe(true)
    expect(kept.hasRoom(0)).toBe(true)
    expect(kept.keep('one more', {}, [bytes(1)], 1000)).toBe(false)
    let isSaved = false
    const saved = kept.whenSaved().then(() => (isSaved = true))
    answers.shift()!()
    await new Promise(resolve => setImmediate(resolve))
    expect(isSaved).toBe(false)
    expect(kept.keep('one more', {}, [bytes(4 * MEBIBYTE)], 1000)).toBe(true)
    for (const answer of answers.splice(0)) answer()
    await saved
  })

  it('is as none where it is another instance’s of something else, and unknown where it cannot be asked for', async () => {
    const hub = new Hub()
    const backplane = hub.join()
    const envelopes = new Envelopes([SECRET])
    const kept = new KeptValues(backplane, envelopes)
    kept.keep('one', {}, [], 1000)
    await kept.whenSaved()
    const key = `r:${envelopes.nameOf('one')}`
    const { value } = hub.keys.get(key)!
    await backplane.command(['SET', `r:${envelopes.nameOf('two')}`, value, 'PX', 1000])
    expect(await kept.find('two')).toBeUndefined()
    const entry = envelopes.seal(16, 0, Buffer.from([0, 0, 0, 2, 123, 125]), key)
    await backplane.command(['SET', key, entry, 'PX', 1000])
    expect(await kept.find('one')).toBeUndefined()
    backplane.isUp = false
    await expect(kept.find('one')).rejects.toThrow('no connection')
    kept.delete('one')
    expect(kept.keep('one', {}, [], 1000)).toBe(true)
    await kept.whenSaved()
    expect(kept.hasRoom(4 * MEBIBYTE)).toBe(true)
  })
})
