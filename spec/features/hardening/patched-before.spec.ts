// An APM patches Node before anything else is loaded: what it keeps of the chunks it sees stays
// what it was.

import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { ServerResponse } from 'node:http'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'

const kept: { chunk: Uint8Array; copy: Buffer }[] = []

beforeAll(() => {
  const { write } = ServerResponse.prototype
  ServerResponse.prototype.write = function (this: ServerResponse, ...args: unknown[]) {
    const [chunk] = args
    if (chunk instanceof Uint8Array) kept.push({ chunk, copy: Buffer.from(chunk) })
    return Reflect.apply(write, this, args)
  } as typeof write
})
afterAll(() => {
  delete (ServerResponse.prototype as { write?: unknown }).write
})
it('a write that is patched on the prototype before the library is loaded sees chunks that stay', async () => {
  const { serve } = await import('../../helpers/serve.js')
  const { call, note } = await import('../limits/setup.js')
  const endpoint = rawEndpoint(async rawCall => {
    for (let n = 1; n <= 60; n++)
      if (!rawCall.emit(note(n, 30_000))) await once(rawCall.res, 'drain')
    rawCall.result()
  })
  const { url } = await serve(endpoint, { maxStreamBytes: 300_000 })
  for (const id of [1, 2]) await (await call(url, id)).ended
  expect(kept.length).toBeGreaterThan(10)
  expect(kept.filter(({ chunk, copy }) => !copy.equals(chunk))).toHaveLength(0)
})
