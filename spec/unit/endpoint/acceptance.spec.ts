// Whether the endpoint has taken what it was sent, also where its client has left before.

import { afterEach, describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { type Acceptance, onceAnswered, onceOver } from '../../../lib/endpoint/acceptance.js'
import { Awaitable } from '../../helpers/gate.js'
import { closeAll, closeLater, listen } from '../../helpers/listen.js'
import { cancelled } from '../../helpers/mcp.js'

afterEach(closeAll)

type Exchange = [req: IncomingMessage, res: ServerResponse]

/** A cancellation that has come, whose client is there or has left. */
async function sent(isGone: boolean): Promise<Exchange> {
  const requests = new Awaitable<Exchange>()
  const { port } = await listen((req, res) => void requests.push([req, res]))
  const client = connect(port, '127.0.0.1')
  closeLater(() => client.destroy())
  client.write('POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n')
  const [req, res] = await requests.nth(1)
  client.resume()
  if (isGone) {
    client.destroy()
    await once(res, 'close')
  }
  return [req, res]
}

describe.each([
  ['is there', false],
  ['has left before the endpoint was called', true]
])('what the endpoint says to a client that %s', (_what, isGone) => {
  const REFUSED = JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: 1, message: 'no' } })

  it.each<[string, (res: ServerResponse) => unknown, boolean]>([
    ['202', res => res.writeHead(202).end(), true],
    ['400', res => res.writeHead(400).end(), false],
    [
      'an error',
      res => res.writeHead(200, { 'Content-Type': 'application/json' }).end(REFUSED),
      false
    ]
  ])('counts: %s', async (_answer, answer, isAccepted) => {
    const [req, res] = await sent(isGone)
    const heard = new Awaitable<Acceptance | 'over'>()
    onceAnswered({ req, res, messages: [cancelled(1)] }, acceptance => heard.push(acceptance))
    onceOver(res, () => heard.push('over'))
    answer(res)
    await heard.nth(2)
    expect([...heard]).toEqual([{ isAccepted, isSessionLost: false }, 'over'])
  })

  it('is nothing where it breaks off without a head', async () => {
    const [req, res] = await sent(isGone)
    const heard = new Awaitable<Acceptance | 'over'>()
    onceAnswered({ req, res, messages: [] }, acceptance => heard.push(acceptance))
    onceOver(res, () => heard.push('over'))
    res.destroy()
    await heard.nth(1)
    expect([...heard]).toEqual(['over'])
  })
})
