// What any instance finds by its name: how much of it.
import { expect, it } from '@jest/globals'
import { Envelopes } from '../../../lib/backplane/envelope.js'
import { KeptValues } from '../../../lib/backplane/kept-values.js'
import { Hub } from '../../helpers/backplane/memory.js'

const SECRET = 'the first secret of all'
const MEBIBYTE = 1024 * 1024
const bytes = (size: number): Uint8Array => new Uint8Array(size)

it('a value that is kept for the other instances is 4 MiB at most, and 32 MiB are on their way', async () => {
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
