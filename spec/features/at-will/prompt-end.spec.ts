// What ends a stream leaves in the same tick: an endpoint may close its server next.
// (`spec/e2e/processes` ends the process.)

import { describe, expect, it } from '@jest/globals'
import { Agent, request as httpRequest, type Server } from 'node:http'
import { closeLater } from '../../helpers/listen.js'
import { end, post, resume, take } from '../../helpers/talk/client.js'
import { hold, leave, note, open } from '../../helpers/talk/endpoint.js'
import { conversation, primer, talk } from '../../helpers/talk/index.js'

const HELD = { endpoint: [note(1), hold] }

/** What Node has been given of the response of a call, right after the endpoint has ended it. */
describe('the end of a response', () => {
  conversation('is in the socket of its first connection when the endpoint goes on', {
    ...HELD,
    client: [
      ...[post, take(2)],
      ({ call: { req, result } }) => {
        const before = req.socket.bytesWritten
        result()
        expect(req.socket.bytesWritten - before).toBeGreaterThan(30)
      },
      end
    ],
    sees: [primer, 1, 'result', 'end']
  })

  conversation('is in the socket of a later one', {
    ...HELD,
    client: [
      ...[post, take(2), resume({ after: null }), take(2)],
      made => {
        made.call.result()
        expect(made.stats().connections).toBe(0)
      },
      end
    ],
    sees: [primer, 1, 'end', primer, 1, 'result', 'end']
  })
})

describe('a server that is closed when its transports have been', () => {
  const closed = (server: Server) => new Promise<void>(resolve => server.close(() => resolve()))

  it('does not wait for an idle connection that a client keeps alive', async () => {
    const made = await talk({ endpoint: [open, hold, leave], headers: { 'mcp-session-id': 's' } })
    // Node would let go of a connection that becomes idle later then.
    made.server.keepAliveTimeout = 600_000
    const agent = new Agent({ keepAlive: true })
    closeLater(() => agent.destroy())
    httpRequest(made.url, { agent, headers: made.headers }, res => res.resume())
      .on('error', () => undefined)
      .end()
    const run = await made.runs.nth(1)
    await made.until(() => made.stats().connections === 1)
    await run.go()
    await closed(made.server)
  })
})
