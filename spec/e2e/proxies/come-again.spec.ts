// A tool that takes longer than a gateway lets any response take.

import { describe, expect, it } from '@jest/globals'
import type { RequestHandler } from 'express'
import { Socket } from 'node:net'
import { connectV2 } from '../../helpers/clients.js'
import { sdkV2Handler } from '../../helpers/endpoints/sdk-v2.js'
import { serve } from '../../helpers/serve.js'
import { programs, startNginx } from './configurations.js'

const describeWithNginx =
  programs.nginx === undefined && !process.env['CI'] ? describe.skip : describe

describeWithNginx('behind nginx (SKIPPED without it, but not in CI)', () => {
  const LIMIT = 4_000

  /**
   * Whatever is on its way by then, bytes or silence. On a wire: the call itself has none, and goes
   * on.
   */
  const totalLimit: RequestHandler = (req, res, next) => {
    if (!(req.socket instanceof Socket)) return next()
    const timer = setTimeout(() => {
      cuts++
      res.destroy()
    }, LIMIT)
    res.once('close', () => clearTimeout(timer))
    next()
  }
  let cuts = 0

  it('gets the result of a tool of 8 s where no response may take 4 s', async () => {
    const endpoint = sdkV2Handler({ legacy: 'reject' })
    const options = { disconnectAfter: 400, upgradeAfter: 200 }
    const { url } = await serve(endpoint, options, [totalLimit])
    const proxy = await startNginx(Number(new URL(url).port), [
      ['listen 8080', `proxy_read_timeout ${LIMIT}ms; listen 8080`]
    ])
    const { client, errors } = await connectV2(`${proxy.url}/gateway/mcp`)
    const done = await client.callTool({ name: 'slow', arguments: { ms: 8_000 } })
    expect(done.content).toEqual([{ type: 'text', text: 'slow but sure' }])
    expect(errors).toEqual([])
    expect(endpoint.log.calls.filter(({ tool }) => tool === 'slow')).toHaveLength(1)
    expect(cuts).toBe(0)
  })
})
