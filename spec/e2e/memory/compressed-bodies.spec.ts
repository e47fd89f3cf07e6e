// Some hundred compressed bytes that come to megabytes: the limit of the parser behind us holds, as
// it does without us.

import { expect, it } from '@jest/globals'
import { gzipSync } from 'node:zlib'
import { exchange, MEBIBYTE, requestBytes, type ServerOptions, withServer } from './served.js'

const REQUESTS = 120
/** More than two runs of the same process differ by; inflated, the bodies come to ten times that. */
const MARGIN = 128 * MEBIBYTE

const message = { jsonrpc: '2.0', id: 1, method: 'any', params: { x: 'a'.repeat(3.9 * MEBIBYTE) } }
const bomb = requestBytes(gzipSync(JSON.stringify(message)), {
  'Content-Encoding': 'gzip',
  Connection: 'close'
})

const growth = (variant: ServerOptions['variant']): Promise<number> =>
  withServer({ variant, endpoint: 'sdk', limit: '100kb' }, async ({ port, begin, peak }) => {
    await exchange(port, bomb)
    const before = await begin()
    await Promise.all(Array.from({ length: REQUESTS }, () => exchange(port, bomb)))
    return (await peak()) - before
  })

it('take no more memory with the middleware than without', async () => {
  const bare = await growth('bare')
  expect(await growth('ours')).toBeLessThan(bare + MARGIN)
})
