// The listen channel (GET): a client that comes back for it finds the one that it had, and what was
// sent meanwhile, once.

import { beforeEach, describe, expect, it } from '@jest/globals'
import { connectV1 } from '../../helpers/clients.js'
import { createCutProxy, type CutBy } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful, type SdkV1Endpoint } from '../../helpers/endpoints/sdk-v1.js'
import { get, initializeSession, type Session } from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { mount, type Mounted, streamIdOf, streamUrlOf, upTo } from './setup.js'

let endpoint: SdkV1Endpoint
let mounted: Mounted
let session: Session
/** What the SDK's transport complains of on the server, such as a second listen channel. */
let errors: Error[]

/**
 * The endpoint is asked once whether it allows another channel, and its refusal goes no further.
 */
const ASKED_ONCE = [
  expect.objectContaining({ message: expect.stringContaining('Only one SSE stream') })
]

beforeEach(async () => {
  endpoint = sdkV1Stateful()
  mounted = await mount(endpoint)
})

async function startSession(): Promise<void> {
  session = await initializeSession(mounted.url, '2025-11-25')
  watch(session.sessionId!)
}

function watch(sessionId: string): void {
  errors = []
  const { transport } = endpoint.sessions.get(sessionId)!
  transport.onerror = error => errors.push(error)
}

/** A notification that belongs to no call, so it goes to the listen channel. */
const notify = (n: number, sessionId = session.sessionId!): Promise<void> =>
  endpoint.sessions.get(sessionId)!.server.sendLoggingMessage({ level: 'info', data: n })

const dataOf = (stream: OpenStream): Json[] => stream.messages().map(message => message.params.data)

const listenOn = (url: string, headers: Record<string, string> = {}) =>
  get(url, { ...session.headers, ...headers })

async function parked(): Promise<void> {
  while (mounted.streams.stats().connections > 0) await new Promise(setImmediate)
}

describe('a GET without Last-Event-ID', () => {
  beforeEach(startSession)

  it('attaches to the listen channel of its session: what was sent meanwhile arrives once, and the endpoint gets no second GET', async () => {
    const { url, streams } = mounted
    const first = await listenOn(url)
    await notify(1)
    expect((await first.nextMessage()).params.data).toBe(1)
    first.destroy()
    await parked()
    await notify(2)
    await notify(3)
    const second = await listenOn(url)
    expect(second.status).toBe(200)
    expect(streamIdOf(second)).toBe(streamIdOf(first))
    expect((await second.nextMessage()).params.data).toBe(2)
    await notify(4)
    await second.take(2, ({ data }) => data !== '')
    expect(dataOf(first)).toEqual([1])
    expect(dataOf(second)).toEqual([2, 3, 4])
    expect(errors).toEqual([])
    expect(streams.stats()).toMatchObject({ live: 1, connections: 1, resumes: 1 })
  })

  it('takes over a channel whose connection is dead, with all that may not have arrived there', async () => {
    const { url, port } = mounted
    const proxy = await createCutProxy({
      target: port,
      plan: () => ({ by: 'silence', afterEvents: 2 })
    })
    const first = await listenOn(`${proxy.url}/mcp`)
    await notify(1)
    await first.nextMessage()
    await proxy.nthCut(1)
    await notify(2)
    const second = await listenOn(url)
    expect(second.status).toBe(200)
    await second.next()
    await notify(3)
    while (dataOf(second).at(-1) !== 3) await second.next()
    // Without a cursor nobody can say what has arrived: the connection that may be dead is given
    // again as a whole.
    expect(dataOf(second)).toEqual([1, 2, 3])
    expect(errors).toEqual(ASKED_ONCE)
  })

  it('may be repeated: it never gets a 409, and the endpoint is asked once', async () => {
    const { url } = mounted
    const got: number[] = []
    for (const n of upTo(6)) {
      const stream = await listenOn(url)
      expect(stream.status).toBe(200)
      await notify(n)
      while (!dataOf(stream).includes(n)) await stream.next()
      got.push(...dataOf(stream))
      if (n % 2 === 0) stream.reset()
      else stream.destroy()
      await parked()
    }
    expect(got).toEqual(upTo(6))
    expect(errors).toEqual(ASKED_ONCE)
  })

  it('of another session goes to the endpoint', async () => {
    const { url } = mounted
    await listenOn(url)
    const other = await initializeSession(url, '2025-11-25')
    const stream = await get(url, other.headers)
    expect(stream.status).toBe(200)
    await notify(1, other.sessionId)
    expect((await stream.nextMessage()).params.data).toBe(1)
    expect(mounted.streams.stats().live).toBe(2)
  })

  it('that does not accept event streams goes to the endpoint', async () => {
    const { url } = mounted
    const first = await listenOn(url)
    const refused = await listenOn(url, { accept: 'application/json' })
    expect(refused.status).toBe(406)
    await notify(1)
    expect((await first.nextMessage()).params.data).toBe(1)
  })
})

describe('a GET with Last-Event-ID', () => {
  beforeEach(startSession)

  it.each([
    ['the endpoint', (): string => mounted.url],
    ['the stream URL', (stream: OpenStream): string => streamUrlOf(mounted.url, stream)]
  ])('gets what came after its cursor, by %s', async (_name, urlOf) => {
    const first = await listenOn(mounted.url)
    for (const n of upTo(3)) await notify(n)
    await first.take(4)
    first.destroy()
    await notify(4)
    const second = await listenOn(urlOf(first), { 'last-event-id': `${streamIdOf(first)}.1` })
    await second.take(4)
    expect(dataOf(second)).toEqual([2, 3, 4])
    expect(errors).toEqual([])
  })

  it('by the stream URL alone goes on where the last connection stopped', async () => {
    const first = await listenOn(mounted.url)
    await notify(1)
    await first.nextMessage()
    first.destroy()
    await parked()
    await notify(2)
    const second = await listenOn(streamUrlOf(mounted.url, first))
    await second.take(2)
    expect(dataOf(second)).toEqual([2])
  })
})

describe('a stock client', () => {
  it.each<CutBy>(['fin', 'rst'])(
    'whose listen channel is cut by %s hears each notification once',
    async by => {
      const { port } = mounted
      let listens = 0
      const proxy = await createCutProxy({
        target: port,
        // Behind the primer and one notification, on the first three connections.
        plan: ({ method }) =>
          method === 'GET' && ++listens <= 3 ? { by, afterEvents: 2 } : undefined
      })
      const got: unknown[] = []
      const { client, transport } = await connectV1(`${proxy.url}/mcp`)
      client.fallbackNotificationHandler = async ({ params }) => void got.push(params?.['data'])
      const sessionId = transport.sessionId!
      watch(sessionId)
      // The GET is on its way, and nobody says when the endpoint has it: a notification before would
      // have nowhere to go.
      while (mounted.streams.stats().connections === 0) await new Promise(setImmediate)
      for (const n of upTo(6)) {
        await notify(n, sessionId)
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
