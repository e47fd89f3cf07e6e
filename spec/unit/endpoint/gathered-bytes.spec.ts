import { expect, it } from '@jest/globals'
import { GatheredBytes } from '../../../lib/endpoint/gathered-bytes.js'

it('gathers what comes in one piece of memory of its own, whatever becomes of what came', () => {
  const body = new GatheredBytes()
  const piece = Buffer.alloc(7)
  let text = ''
  for (let n = 0; n < 100; n++) {
    const next = `${n}`.repeat(n % 3)
    text += next
    body.add(piece.subarray(0, piece.write(next)))
  }
  const whole = body.whole()
  expect([whole.toString(), body.size]).toEqual([text, text.length])
  expect(whole.buffer.byteLength).toBe(text.length)
  body.clear()
  expect([body.size, body.whole().length]).toEqual([0, 0])
  body.add(Buffer.from('again'))
  expect([body.whole().toString(), whole.toString()]).toEqual(['again', text])
})
