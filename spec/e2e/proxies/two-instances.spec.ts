// Two instances behind nginx and HAProxy, with the configurations of the guide: while one drains, new
// clients go to the other.

import { describe, expect, it } from '@jest/globals'
import type { AddressInfo } from 'node:net'
import { Hub } from '../../helpers/backplane/memory.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, ended, headersFor, post } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { programs, startBeforeTwo } from './configurations.js'

describe.each(['nginx', 'haproxy'] as const)('%s (SKIPPED without it, but not in CI)', name => {
  const itHere = programs[name] === undefined && !process.env['CI'] ? it.skip : it

  itHere('sends new clients elsewhere while an instance drains', async () => {
    const hub = new Hub()
    const endpoint = rawEndpoint(call => (call.message.id === 0 ? call.open() : call.result({})))
    const one = await serve(endpoint, { backplane: hub.option() })
    const two = await serve(endpoint, { backplane: hub.option() })
    const [first, second] = [one, two].map(({ server }) => (server.address() as AddressInfo).port)
    const proxy = await startBeforeTwo[name](first!, second!)
    const headers = headersFor({ version: '2025-11-25' })
    await post(one.url, callTool(0, 'x'), headers)

    one.server.close()
    const drained = one.streams.close()
    for (let id = 1; id <= 8; id++) {
      const answer = await ended(post(`${proxy.url}/mcp`, callTool(id, 'x'), headers))
      expect([id, answer.status]).toEqual([id, 200])
    }
    await one.streams.close({ drain: 0 })
    await drained
  })
})
