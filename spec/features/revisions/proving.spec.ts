// Proving by use: who may be disconnected at will. A client that has fetched a stream URL follows
// links, whatever it has announced; from 2025-11-25 on, one that has come back for a call by its
// event id will do so again. Of all others it is not known.

import { describe, expect, it } from '@jest/globals'
import supertest from 'supertest'
import { currentStream, type McpStreamsOptions } from '../../../lib/index.js'
import { rawEndpoint, type RawCall, type RawScript } from '../../helpers/endpoints/raw.js'
import {
  callTool,
  get,
  headersFor,
  initializeSession,
  notification,
  post
} from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'

const RETRY = 7

/**
 * An endpoint that holds each call open, and the means to disconnect the client of the nth one from
 * inside it.
 */
async function disconnecting(session?: string) {
  const disconnects: (() => void)[] = []
  const endpoint = rawEndpoint(
    ({ open, emit, message }) => {
      const stream = currentStream()!
      disconnects.push(() => stream.disconnect({ retry: RETRY }))
      open()
      emit({ jsonrpc: '2.0', method: 'notifications/message', params: { data: message.id } })
    },
    session === undefined ? { stateless: true } : { session }
  )
  const served = await serve(endpoint, { retry: 20, resumeInterval: { min: 0 } })
  return { ...served, endpoint, disconnect: (n: number) => disconnects[n - 1]!() }
}

const openWithNews: RawScript = ({ open, emit }) => {
  open()
  emit(notification('notifications/message', { data: 'news' }))
}

const sayGoodbye = ({ result }: RawCall) => result({})

/** An id to come back with, when to, and a clean end. */
async function expectDisconnected(response: OpenStream, primerId: string) {
  expect(await response.ended).toBe('end')
  expect(response.blocks.at(-1)!.raw).toBe(
    `event: prime\nid: ${primerId}\nretry: ${RETRY}\ndata: {}\n\n`
  )
}

/** The call goes on, on this very connection. */
async function expectUndisturbed(response: OpenStream, call: RawCall) {
  sayGoodbye(call)
  expect(await response.ended).toBe('end')
  expect(response.blocks.filter(({ event }) => event === 'prime')).toHaveLength(1)
  expect(response.messages().at(-1)).toMatchObject({ result: {} })
}

describe.each(['2025-03-26', '2025-06-18'])('at %s, in a session', version => {
  it('a client that has announced and proved nothing stays connected', async () => {
    const { url, endpoint, disconnect } = await disconnecting('s')
    const { headers } = await initializeSession(url, version)
    const response = await post(url, callTool(1, 'x'), headers)
    await response.nextMessage()
    disconnect(1)
    await expectUndisturbed(response, endpoint.calls[0]!)
  })

  it('one that has fetched a stream URL is disconnected from its next calls', async () => {
    const { url, endpoint, disconnect } = await disconnecting('s')
    const { headers } = await initializeSession(url, version)
    const first = await post(url, callTool(1, 'x'), headers)
    sayGoodbye(endpoint.calls[0]!)
    await first.ended
    // Not even with its session: the URL names the stream, and the stream the session.
    const { status } = await get(streamUrl(first, url))
    expect(status).toBe(200)
    const second = await post(url, callTool(2, 'x'), headers)
    await second.nextMessage()
    disconnect(2)
    await expectDisconnected(second, `${streamId(second)}.r2.1.2`)
  })

  it('one that has fetched a stream URL is disconnected from calls that it had open by then', async () => {
    const { url, disconnect } = await disconnecting('s')
    const { headers } = await initializeSession(url, version)
    const [first, second] = [
      await post(url, callTool(1, 'x'), headers),
      await post(url, callTool(2, 'x'), headers)
    ]
    await second.nextMessage()
    expect((await get(streamUrl(first, url), headers)).status).toBe(200)
    disconnect(2)
    await expectDisconnected(second, `${streamId(second)}.r2.1.2`)
  })

  it('a resume by Last-Event-ID alone proves nothing: that is how clients come back that never follow a link', async () => {
    const { url, endpoint, disconnect } = await disconnecting('s')
    const { headers } = await initializeSession(url, version)
    const first = await post(url, callTool(1, 'x'), headers)
    const { id } = await first.next(({ event }) => event === 'message')
    first.reset()
    const resumed = await get(url, { ...headers, 'last-event-id': id! })
    await resumed.next()
    disconnect(1)
    await expectUndisturbed(resumed, endpoint.calls[0]!)
  })

  it('another session proves nothing for this one', async () => {
    const { url, endpoint, disconnect } = await disconnecting('s')
    const { headers } = await initializeSession(url, version)
    const others = { ...headers, 'mcp-session-id': 'other' }
    const first = await post(url, callTool(1, 'x'), others)
    expect((await get(streamUrl(first, url), others)).status).toBe(200)
    const second = await post(url, callTool(2, 'x'), headers)
    await second.nextMessage()
    disconnect(2)
    await expectUndisturbed(second, endpoint.calls[1]!)
  })

  it('a stranger who is refused proves nothing', async () => {
    const { url, endpoint, disconnect } = await disconnecting('s')
    const { headers } = await initializeSession(url, version)
    const response = await post(url, callTool(1, 'x'), headers)
    await response.nextMessage()
    await supertest(streamUrl(response, url))
      .get('')
      .set({ ...headers, authorization: 'Bearer other' })
      .expect(404)
    disconnect(1)
    await expectUndisturbed(response, endpoint.calls[0]!)
  })
})

describe('at 2025-11-25, in a session', () => {
  const AGE = 30
  const BY_HANDLER: RawScript = call => {
    openWithNews(call)
    currentStream()!.disconnect({ retry: 7 })
  }
  const DISCONNECTS: [string, McpStreamsOptions, RawScript][] = [
    ['its handler', {}, BY_HANDLER],
    ['its age', { disconnectAfter: AGE }, openWithNews]
  ]

  async function calling(options: McpStreamsOptions, script: RawScript) {
    const admitting: RawScript = call =>
      call.message?.method === 'ping' ? call.result() : script(call)
    const endpoint = rawEndpoint(admitting, { session: 's' })
    const served = await serve(endpoint, { retry: 20, resumeInterval: { min: 0 }, ...options })
    const { headers } = await initializeSession(served.url, '2025-11-25')
    const call = async (id: number) => {
      const response = await post(served.url, callTool(id, 'x'), headers)
      await response.nextMessage()
      return response
    }
    /** A client that is known to come back, connected from now on: its time is up no sooner. */
    const older = async () => {
      const announced = headersFor({ version: '2025-11-25', prefer: 'rel=stream' })
      expect(await (await post(served.url, callTool(99, 'x'), announced)).ended).toBe('end')
    }
    return { ...served, endpoint, headers, call, older }
  }

  /** The call goes on, on this very connection. */
  async function expectConnected(response: OpenStream, call: RawCall) {
    expect(response.ending).toBeUndefined()
    call.result()
    expect(await response.ended).toBe('end')
    expect(response.messages().at(-1)).toMatchObject({ result: {} })
  }

  it.each(DISCONNECTS)(
    'a client that has shown nothing stays connected, in spite of %s',
    async (_by, options, script) => {
      const { endpoint, call, older } = await calling(options, script)
      const response = await call(1)
      await older()
      await expectConnected(response, endpoint.calls[0]!)
    }
  )

  it.each(DISCONNECTS)(
    'one that comes back for a call is disconnected from that and from its next ones, by %s',
    async (_by, options, script) => {
      const { url, call, headers } = await calling(options, script)
      const first = await call(1)
      first.reset()
      const id = first.blocks.findLast(({ id }) => id !== undefined)!.id!
      const resumed = await get(url, { ...headers, 'last-event-id': id })
      const second = await call(2)
      expect(await second.ended).toBe('end')
      if (options.disconnectAfter !== undefined) expect(await resumed.ended).toBe('end')
    }
  )

  it.each(DISCONNECTS)(
    'one that comes back for its listen channel only stays connected to its calls, in spite of %s',
    async (_by, options, script) => {
      const { url, endpoint, call, older, headers } = await calling(options, script)
      const channel = await get(url, headers)
      const { id } = await channel.next(({ event }) => event === 'message')
      channel.reset()
      const again = await get(url, { ...headers, 'last-event-id': id! })
      await again.next()
      const response = await call(1)
      await older()
      await expectConnected(
        response,
        endpoint.calls.find(({ message }) => message?.id === 1)!
      )
    }
  )

  it('a stranger that resumes its call shows nothing for it', async () => {
    const { url, endpoint, call, headers } = await calling({}, BY_HANDLER)
    const first = await call(1)
    const { id } = first.blocks.at(-1)!
    const stranger = { ...headers, authorization: 'Bearer other', 'last-event-id': id! }
    await (
      await get(url, stranger)
    ).ended
    const second = await call(2)
    await expectConnected(second, endpoint.calls.at(-1)!)
  })

  it('another session shows nothing for this one', async () => {
    const { url, endpoint, call, headers } = await calling({}, BY_HANDLER)
    const other = { ...headers, 'mcp-session-id': 'other' }
    const first = await post(url, callTool(1, 'x'), other)
    const { id } = await first.next(({ event }) => event === 'message')
    await get(url, { ...other, 'last-event-id': id! })
    const second = await call(2)
    await expectConnected(second, endpoint.calls.at(-1)!)
  })
})

describe('without a session', () => {
  const headers = headersFor({ version: '2025-06-18' })

  it('the proof holds for the stream that was fetched', async () => {
    const { url, disconnect } = await disconnecting()
    const first = await post(url, callTool(1, 'x'), headers)
    const resumed = await get(streamUrl(first, url), headers)
    await resumed.nextMessage()
    disconnect(1)
    await expectDisconnected(resumed, `${streamId(first)}.r1.1.4`)
  })

  it('and for no other', async () => {
    const { url, endpoint, disconnect } = await disconnecting()
    const first = await post(url, callTool(1, 'x'), headers)
    expect((await get(streamUrl(first, url), headers)).status).toBe(200)
    const second = await post(url, callTool(2, 'x'), headers)
    await second.nextMessage()
    disconnect(2)
    await expectUndisturbed(second, endpoint.calls[1]!)
  })
})
