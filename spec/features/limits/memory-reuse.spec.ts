// Whoever keeps the chunks of a response, as loggers do, must never find another client's messages
// in them.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { del } from '../../helpers/mcp.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { call, resume } from './setup.js'

const SIZE = 60_000

/** Keeps what is written, as it is given, and passes it on. */
function keepingChunks() {
  const kept = new Map<string, Buffer[]>()
  const middleware: RequestHandler = (req, res, next) => {
    const chunks: Buffer[] = []
    kept.set(`${req.headers['x-name']}`, chunks)
    const { write } = res
    res.write = ((...args: Parameters<typeof write>) => {
      chunks.push(args[0] as Buffer)
      return write.apply(res, args)
    }) as typeof write
    next()
  }
  return { kept, middleware }
}

describe('a middleware in front that keeps what passes', () => {
  it('keeps what its client was sent, also when the memory of streams is used again', async () => {
    const { kept, middleware } = keepingChunks()
    const endpoint = rawEndpoint(
      rawCall => {
        const { id } = rawCall.message
        for (let i = 0; i < 4; i++)
          rawCall.emit({ jsonrpc: '2.0', method: 'notifications/message', params: id.repeat(SIZE) })
        rawCall.result()
      },
      { stateless: true }
    )
    const { url } = await serve(endpoint, {}, [middleware])
    const texts = new Map<string, string>()
    for (const letter of 'abcdefgh') {
      const response = await call(url, letter, { 'x-name': letter })
      await response.ended
      texts.set(letter, response.text)
      const again = await resume(streamUrl(response, url), undefined, {
        'x-name': `${letter} again`
      })
      await again.ended
      texts.set(`${letter} again`, again.text)
      await del(streamUrl(response, url), { 'x-name': 'none' })
    }
    for (const [name, text] of texts)
      expect(Buffer.concat(kept.get(name)!).toString() === text).toBe(true)
  })
})
