// The official SDK over WebSocket: what a call is, on a wire that holds and on wires that do not.

import { describe, expect, it } from '@jest/globals'
import { connectWire, serveWires, SETUPS } from './web-socket.js'

describe.each(SETUPS)('over WebSocket, with the official SDK, %s', setup => {
  it('a call is answered as without us', async () => {
    const { url, log } = await serveWires(setup)
    const { call, errors } = await connectWire(setup, url)
    expect(await call('count', { key: 'a', n: 3 })).toEqual({
      text: 'counted to 3',
      steps: [1, 2, 3]
    })
    expect(log.executions('a')).toBe(1)
    expect(errors).toEqual([])
  })

  it.each(['fin', 'rst'] as const)('a call goes on when its wire is cut by %s', async by => {
    const { url, log, proxy, transports, closed } = await serveWires(setup)
    const { call, errors } = await connectWire(setup, url)
    const called = call('count', { key: 'a', n: 4, paced: true })
    log.release('a', 2)
    await log.calls.nth(1)
    proxy.cutNow(by)
    await transports.nth(2)
    log.release('a', 3)
    expect(await called).toEqual({ text: 'counted to 4', steps: [1, 2, 3, 4] })
    expect(log.executions('a')).toBe(1)
    expect(errors).toEqual([])
    // The server of the second wire had nothing to do; that of the first has heard of nothing.
    expect(closed).toEqual([transports[1]])
  })
})
