// The listen channel (GET): a client that comes back for it finds the one that it had, and what was
// sent meanwhile, once.

import { describe, expect, it } from '@jest/globals'
import { connectV1 } from '../../helpers/clients.js'
import { createCutProxy, type CutBy } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { initializeSession } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import { cut, end, listen, on, resume, take, WAYS, type Word } from '../../helpers/talk/client.js'
import { primer, talk, upTo } from '../../helpers/talk/index.js'

/** A session of the SDK's endpoint, and what its transport complains of on the server. */
async function session() {
  const made = await talk({ server: 'SDK v1', session: 'its own' })
  const { sessions } = made.endpoint.handler as ReturnType<typeof sdkV1Stateful>
  const errors: Error[] = []
  const [{ server, transport } = { server: undefined!, transport: undefined! }] = sessions.values()
  transport.onerror = error => errors.push(error)
  /** A notification that belongs to no call, so it goes to the listen channel. */
  const notify =
    (n: number): Word =>
    () =>
      server.sendLoggingMessage({ level: 'info', data: n })
  const plays = (...words: Word[]) => made.plays(...words)
  return { made, sessions, errors, notify, plays }
}
/**
 * The endpoint is asked once whether it allows another channel, and its refusal goes no further.
 */
const ASKED_ONCE = [
  expect.objectContaining({ message: expect.stringContaining('Only one SSE stream') })
]

describe('a GET without Last-Event-ID', () => {
  it('attaches to the listen channel of its session: what was sent meanwhile arrives once, and the endpoint gets no second GET', async () => {
    const { made, errors, notify, plays } = await session()
    await plays(listen, notify(1), take(2), cut, notify(2), notify(3), listen, take(2), notify(4))
    await plays(take(2))
    expect(made.words()).toEqual([primer, 1, primer, 2, 3, 4])
    expect(errors).toEqual([])
    expect(made.stats()).toMatchObject({ live: 1, connections: 1, resumes: 1 })
  })

  it('takes over a channel whose connection is dead, with all that may not have arrived there', async () => {
    const { made, errors, notify, plays } = await session()
    await plays(listen, notify(1), take(2), cut({ by: 'silence' }), notify(2))
    await plays(listen, take(1), notify(3), take(3))
    // Without a cursor nobody can say what has arrived: the connection that may be dead is given
    // again as a whole.
    expect(made.words()).toEqual([primer, 1, primer, 1, 2, 3])
    expect(errors).toEqual(ASKED_ONCE)
  })

  it('may be repeated: it never gets a 409, and the endpoint is asked once', async () => {
    const { made, errors, notify, plays } = await session()
    for (const n of upTo(6))
      await plays(listen, notify(n), take(2), cut({ by: n % 2 === 0 ? 'rst' : 'fin' }))
    expect(made.words()).toEqual(upTo(6).flatMap(n => [primer, n]))
    expect(errors).toEqual(ASKED_ONCE)
  })

  it('of another session goes to the endpoint', async () => {
    const { made, sessions, plays } = await session()
    await plays(listen)
    const { headers, sessionId } = await initializeSession(made.url, '2025-11-25')
    const { server } = sessions.get(sessionId!)!
    await plays(listen({ headers }), () => server.sendLoggingMessage({ level: 'info', data: 1 }))
    await plays(take(2))
    expect(made.words()).toEqual([primer, 1])
    expect(made.stats().live).toBe(2)
  })

  it('that does not accept event streams goes to the endpoint', async () => {
    const { made, notify, plays } = await session()
    await plays(listen, listen({ accept: 'application/json' }), end, notify(1), on(0, take(2)))
    expect(made.words()).toEqual([primer, 1, '406'])
  })
})

describe('a GET with Last-Event-ID', () => {
  it.each(WAYS)('gets what came after its cursor, by %s', async (_name, by) => {
    const { made, errors, notify, plays } = await session()
    await plays(listen, notify(1), notify(2), notify(3), take(4), cut, notify(4))
    await plays(resume({ by, after: 1 }), take(4))
    expect(made.words()).toEqual([primer, 1, 2, 3, primer, 2, 3, 4])
    expect(errors).toEqual([])
  })

  it('by the stream URL alone goes on where the last connection stopped', async () => {
    const { made, notify, plays } = await session()
    await plays(listen, notify(1), take(2), cut, notify(2), resume({ after: null }), take(2))
    expect(made.words()).toEqual([primer, 1, primer, 2])
  })
})

describe('a stock client', () => {
  it.each<CutBy>(['fin', 'rst'])(
    'whose listen channel is cut by %s hears each notification once',
    async by => {
      const endpoint = sdkV1Stateful()
      const { url, streams } = await serve(endpoint, { retry: 10 })
      let listens = 0
      const proxy = await createCutProxy({
        target: Number(new URL(url).port),
        // Behind the primer and one notification, on the first three connections.
        plan: ({ method }) =>
          method === 'GET' && ++listens <= 3 ? { by, afterEvents: 2 } : undefined
      })
      const got: unknown[] = []
      const errors: Error[] = []
      const { client, transport } = await connectV1(`${proxy.url}/mcp`)
      client.fallbackNotificationHandler = async ({ params }) => void got.push(params?.['data'])
      const session = endpoint.sessions.get(transport.sessionId!)!
      session.transport.onerror = error => errors.push(error)
      // The GET is on its way, and nobody says when the endpoint has it: a notification before would
      // have nowhere to go.
      while (streams.stats().connections === 0) await new Promise(setImmediate)
      for (const n of upTo(6)) {
        await session.server.sendLoggingMessage({ level: 'info', data: n })
        // The next one is sent while nobody listens, or to a connection that has just come; either
        // way it arrives.
        if (n <= 3) await proxy.nthCut(n)
      }
      while (got.length < 6) await new Promise(setImmediate)
      expect(got).toEqual(upTo(6))
      expect(errors).toEqual([])
    }
  )
})
