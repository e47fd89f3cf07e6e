// An answer under a key that comes in pieces, however many: what is kept of it is no more than its
// bytes.

import { expect, it } from '@jest/globals'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { mount } from './setup.js'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const PIECES = 200_000

function memory(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

it.each(['', 'x'])('takes little where its pieces are %j', async piece => {
  const { send, sendAndLeave, streams } = await mount(() => undefined)
  const { res, closed } = await sendAndLeave()
  res.writeHead(200, { 'Content-Type': 'text/plain' })
  const before = memory()
  for (let n = 1; n <= PIECES; n++) {
    res.write(piece)
    if (n % 1000 === 0) await new Promise(setImmediate)
  }
  // Kept one by one they take 20 MB and more, of which 200 KB would be counted.
  expect(memory() - before).toBeLessThan(10 * PIECES + 2_000_000)
  expect(streams.stats().bytes).toBeGreaterThanOrEqual(piece.length * PIECES)
  res.end()
  await closed
  expect((await send()).text).toBe(piece.repeat(PIECES))
})
