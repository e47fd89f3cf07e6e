// `currentStream().disconnect()`: the connection closes at will, the stream goes on, towards
// clients that come back.

import { describe, expect, it } from '@jest/globals'
import { currentStream, type CurrentStream, type McpStreamsOptions } from '../../../lib/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import { happenings } from '../../helpers/happenings.js'
import { initialize, result as resultOf } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { counts, end, go, post, resume, take, until } from '../../helpers/talk/client.js'
import { hold, json, noteOf, note, open, result, turn } from '../../helpers/talk/endpoint.js'
import { named, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, play, primer, upTo, type Talk } from '../../helpers/talk/index.js'

/** The stream of the call that the endpoint runs for. */
let stream: CurrentStream
const mine: Line = named('mine', () => (stream = currentStream()!))
const disconnect = (retry?: number): Line =>
  named(`disconnect(${retry ?? ''})`, () => stream.disconnect(retry === undefined ? {} : { retry }))
const head = [mine, open]
const ANNOUNCED = { prefer: 'rel=stream' }
const LEFT = [primer, primer, 'end']

/** What stood on a connection, with `ID` for the ids of its stream. */
const textOf = ({ wires, stream }: Talk, n: number): string =>
  wires[n]!.response.text.replaceAll(`${stream}.r1`, 'ID')
const first = (id: string, retry = 3000) => `id: ID.${id}\nretry: ${retry}\ndata:\n\n`
const event = (id: number, message: object) =>
  `id: ID.${id}\nevent: message\ndata: ${JSON.stringify(message)}\n\n`
const RESULT = resultOf(1, {})

describe('disconnect', () => {
  conversation(
    'ends the connection with an id to come back with and a time to do so; the stream goes on',
    {
      ...ANNOUNCED,
      endpoint: [...head, note(1), disconnect(1234), hold, result],
      client: [
        ...[post, end, counts({ live: 1, connections: 0 })],
        ({ call }) => expect(call.isClosed).toBe(false),
        ...[resume, take(1), go, end]
      ],
      sees: [primer, 1, primer, 'end', primer, 'result', 'end'],
      then: talk => {
        expect(textOf(talk, 0)).toBe(first('0.1') + event(1, noteOf(1)) + first('1.2', 1234))
        expect(textOf(talk, 1)).toBe(first('1.3') + event(2, RESULT))
      }
    }
  )

  conversation('leaves nothing of the connection with the response, which may wait for hours', {
    ...ANNOUNCED,
    endpoint: [...head, note(1), disconnect(), hold],
    client: [post, end],
    sees: [primer, 1, primer, 'end'],
    then: ({ call }) => expect(call.res.rawListeners('drain')).toEqual([])
  })

  describe.each<[when: string, script: Line[]]>([
    ['before the head is written', [mine, disconnect(9), turn, open]],
    ['in the same breath as the head', [...head, disconnect(9)]],
    ['after the head has left, before any event', [...head, turn, disconnect(9)]]
  ])('%s', (_when, script) => {
    conversation('takes effect', {
      ...ANNOUNCED,
      options: { resumeInterval: { min: 0 } },
      endpoint: [...script, hold, result],
      client: [post, end, go, resume({ by: 'endpoint' }), end],
      sees: [...LEFT, primer, 'result', 'end'],
      then: talk => {
        expect(textOf(talk, 0)).toBe(first('0.1') + first('0.2', 9))
        expect(textOf(talk, 1)).toBe(first('0.3') + event(1, RESULT))
      }
    })
  })

  describe.each<[options: McpStreamsOptions, retry: number]>([
    [{}, 1000],
    [{ retry: null }, 1000],
    [{ retry: 5000 }, 1000],
    [{ retry: 50 }, 50],
    [{ resumeInterval: { min: 2 } }, 2000]
  ])('with options %j', (options, retry) => {
    conversation(`asks for ${retry} ms where the handler does not say`, {
      ...{ ...ANNOUNCED, options },
      endpoint: [...head, disconnect(), hold],
      client: [post, end],
      then: ({ wire }) => expect(wire.blocks.at(-1)!.retry).toBe(retry)
    })
  })

  describe.each([-1, 0.5, NaN, Infinity, '10', null])('after %p', retry => {
    const thrown: unknown[] = []
    conversation('refuses to tell clients to come back', {
      ...ANNOUNCED,
      endpoint: [
        mine,
        () => {
          try {
            stream.disconnect({ retry: retry as number })
          } catch (error) {
            thrown.push(error)
          }
        },
        result
      ],
      client: [post, end],
      sees: [primer, 'result', 'end'],
      then: () => {
        expect(thrown).toEqual([expect.any(TypeError)])
        expect((thrown[0] as Error).message).toContain('`retry`')
      }
    })
  })

  conversation('is quiet where there is no connection, and not held against the next one', {
    ...{ ...ANNOUNCED, options: { retry: 20 } },
    endpoint: [
      ...head,
      turn,
      disconnect(),
      disconnect(),
      hold,
      disconnect(),
      note(1),
      hold,
      result
    ],
    client: [post, end, go, resume({ by: 'endpoint' }), take(2), go, end],
    sees: [...LEFT, primer, 1, 'result', 'end'],
    counts: { live: 0, finished: 1 }
  })

  conversation('is quiet after the response', {
    ...ANNOUNCED,
    endpoint: [mine, result, disconnect()],
    client: [post, end],
    sees: [primer, 'result', 'end'],
    then: talk => expect(textOf(talk, 0)).toBe(first('0.1') + event(1, RESULT))
  })

  conversation('is quiet on a response that is no stream', {
    ...ANNOUNCED,
    endpoint: [mine, disconnect(), json()],
    client: [post, end],
    sees: ['json', RESULT]
  })

  conversation('can be repeated on each connection, the ids advancing while the cursor stays', {
    ...{ ...ANNOUNCED, options: { retry: 20 } },
    endpoint: [...head, disconnect(), ...upTo(3).flatMap(() => [hold, disconnect()]), hold],
    client: [
      ...[post, end],
      ...upTo(3).flatMap(() => [resume({ by: 'endpoint' }), take(1), go, end])
    ],
    sees: upTo(4).flatMap(() => LEFT),
    ids: upTo(8).map(n => `r1.0.${n}`)
  })

  describe('of a client that reads nothing', () => {
    const LARGE = `data: {"data":"${'x'.repeat(64 * 1024)}"}\n\n`
    // More than all the buffers on the way take.
    const flood: Line = ({ write }) => {
      for (let i = 0; i < 128; i++) write(LARGE)
    }
    const flooded = () =>
      play({
        ...ANNOUNCED,
        endpoint: [...head, flood, turn, disconnect(), hold, result],
        client: [
          ...[post, ({ response }: Talk) => void response.pause()],
          until(({ run }) => run.done.includes('hold'))
        ]
      })

    it('waits for nobody: the stream is without a client from then on', async () => {
      const takenOver = happenings('taken-over')
      const talk = await flooded()
      await talk.plays(go, resume({ after: 'ID.r1.0.1' }), end)
      expect(talk.response.messages()).toHaveLength(129)
      expect(takenOver).toEqual([])
    })

    it('ends as cleanly as any once it reads, so that it can go on from there', async () => {
      const talk = await flooded()
      expect(talk.stats()).toMatchObject({ live: 1, connections: 1 })
      const { response } = talk
      response.resume()
      expect(await response.ended).toBe('end')
      expect(response.messages().length).toBeLessThan(128)
      expect(response.blocks.at(-1)!.retry).toBe(1000)
      await talk.plays(go, resume({ by: 'endpoint' }), end)
      expect(response.messages().length + talk.response.messages().length).toBe(129)
      expect(talk.stats()).toMatchObject({ live: 0, connections: 0 })
    })
  })
})

describe('a client that has not shown that it comes back', () => {
  describe.each(['2025-03-26', '2025-06-18', ''])('of revision %j', version => {
    conversation('stays connected', {
      version,
      endpoint: [mine, disconnect(), open, turn, disconnect(1), turn, result],
      client: [post, end],
      sees: [primer, 'result', 'end'],
      then: talk =>
        expect(textOf(talk, 0)).toBe(
          `event: prime\nid: ID.0.1\nretry: 3000\ndata: {}\n\n${event(1, RESULT)}`
        )
    })
  })

  conversation('has not agreed upon anything while it initializes', {
    ...ANNOUNCED,
    endpoint: [
      call => call.open({ 'Mcp-Session-Id': 's' }),
      ...[mine, disconnect()],
      call => call.result({ protocolVersion: call.message.params.protocolVersion })
    ],
    client: [post({ message: initialize('2025-11-25') }), end],
    sees: ['result of initialize', 'end']
  })
})

describe.each(['2025-06-18', '2026-07-28'])(
  'an older client that has announced itself, at %s',
  version => {
    conversation('is disconnected', {
      ...{ ...ANNOUNCED, version },
      endpoint: [...head, disconnect(1500), hold],
      client: [post, end],
      sees: LEFT,
      then: talk => {
        const isNamed = version === '2025-06-18'
        const last = isNamed
          ? 'event: prime\nid: ID.0.2\nretry: 1500\ndata: {}\n\n'
          : first('0.2', 1500)
        expect(textOf(talk, 0).endsWith(last)).toBe(true)
      }
    })
  }
)

/**
 * A tool that disconnects its client first thing and once more each time that it is back, then
 * answers.
 */
function polled(times: number) {
  const resumed = happenings('resumed')
  return async () => {
    currentStream()!.disconnect({ retry: 5 })
    for (let n = 1; n <= times; n++) {
      await resumed.nth(n)
      if (n < times) currentStream()!.disconnect({ retry: 5 })
    }
    return `back ${times} times`
  }
}
const textIn = (result: Json): string => JSON.parse(result.content[0].text)

describe.each([
  ['SDK v1', sdkV1Stateful],
  ['SDK v1 stateless', sdkV1Stateless],
  ['SDK v2', sdkV2Stateful],
  ['SDK v2 handler', sdkV2Handler]
] as const)('in a tool of %s', (server, create) => {
  it('an official client of v1 that is known to come back does so, as often as it takes', async () => {
    const endpoint = create({ onContext: polled(4) })
    const { url, streams } = await serve(endpoint, { retry: 20, handoff: 'always' })
    const { client, errors } = await connectV1(url)
    const result = await client.callTool({ name: 'context', arguments: { key: 'k' } })
    expect(textIn(result)).toBe('back 4 times')
    expect(streams.stats()).toMatchObject({ resumes: 4, live: expect.any(Number) })
    expect(endpoint.log.executions('k')).toBe(1)
    expect(errors).toEqual([])
  })

  it('one of v2 does, too', async () => {
    const endpoint = create({ onContext: polled(2) })
    const { url } = await serve(endpoint, { retry: 20, handoff: 'always' })
    const { client, errors } = await connectV2(url, { era: '2025-11-25' })
    const result = await client.callTool({ name: 'context', arguments: { key: 'k' } })
    expect(textIn(result)).toBe('back 2 times')
    expect(endpoint.log.executions('k')).toBe(1)
    expect(errors).toEqual([])
  })

  conversation('a client of 2025-06-18 never notices', {
    ...{ server, version: '2025-06-18', session: 'its own' },
    endpoint: [mine, disconnect(5), result],
    client: [post, end],
    sees: [primer, 'result', 'end'],
    counts: { resumes: 0 }
  })
})

describe('in a tool of SDK v2 at 2026-07-28', () => {
  conversation('a client that has announced itself comes back by the link', {
    ...{ ...ANNOUNCED, server: 'SDK v2 handler', version: '2026-07-28' },
    endpoint: [mine, disconnect(5), hold, result],
    client: [post, end, resume({ after: null }), take(1), go, end],
    sees: [...LEFT, primer, 'result', 'end']
  })
})
