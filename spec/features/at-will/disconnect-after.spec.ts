// `disconnectAfter`: the greatest age of a connection, for proxies that limit the total duration of
// a response.

import { describe, expect, it } from '@jest/globals'
import { connectV1 } from '../../helpers/clients.js'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { happenings } from '../../helpers/happenings.js'
import { serve } from '../../helpers/serve.js'
import { counts, end, go, listen, on, post } from '../../helpers/talk/client.js'
import { resume, type Word } from '../../helpers/talk/client.js'
import { hold, note, open, result, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, play, primer, upTo, type Talk } from '../../helpers/talk/index.js'
import { sleep } from '../../helpers/sleep.js'

const AGE = 40
/** Of a client that has announced that it comes back. */
const POLLING = { prefer: 'rel=stream' }
const options = { disconnectAfter: AGE, retry: 300 }
/** Answers nothing by itself: the spec does. */
const SILENT = { options, endpoint: [open, hold, result] }
const AGED = [primer, primer, 'end']

describe('disconnectAfter', () => {
  const ages: number[] = []
  const timed =
    (word: Word): Word =>
    async talk => {
      const start = performance.now()
      await talk.plays(word, end)
      ages.push(performance.now() - start)
    }
  conversation(
    'closes each connection of a polling client when it is that old, and the stream goes on',
    {
      ...{ ...SILENT, ...POLLING },
      client: [
        ...[timed(post), timed(resume({ by: 'endpoint' }))],
        // Not before its time, which Node rounds by a millisecond; how much later is the machine's
        // affair.
        () => expect(Math.min(...ages)).toBeGreaterThan(AGE - 2),
        ...[counts({ live: 1, connections: 0 }), go, resume, end]
      ],
      sees: [...AGED, ...AGED, primer, 'result', 'end'],
      then: ({ wires, stream }) => {
        const primers = (...counts: number[]) =>
          counts.map(n => `id: ${stream}.r1.0.${n}\nretry: 300\ndata:\n\n`).join('')
        expect(wires[0]!.response.text).toBe(primers(1, 2))
        expect(wires[1]!.response.text).toBe(primers(3, 4))
      }
    }
  )

  it('closes a connection that is busy all the time, without losing an event', async () => {
    const every5ms: Line[] = upTo(30).flatMap(n => [note(n), () => sleep(5)])
    const talk = await play({
      ...{ options, ...POLLING },
      endpoint: [open, ...every5ms, result],
      client: [post, end]
    })
    while (!talk.words().includes('result')) await talk.plays(resume({ by: 'endpoint' }), end)
    expect(talk.words().filter(word => word !== primer && word !== 'end')).toEqual([
      ...[...upTo(30), 'result']
    ])
    expect(talk.stats().resumes).toBeGreaterThan(1)
  })

  describe.each(['2025-06-18', '2025-11-25', ''])('a client of revision %j', version => {
    conversation('stays connected that has not shown that it comes back', {
      ...SILENT,
      options: { ...options, disconnectAfter: 1 },
      // Two clients: when the younger connection of one that comes back has been closed, the older
      // one's time was up, too.
      client: [
        ...[post({ version }), post({ id: 2, ...POLLING }), end],
        ...[on(0, ({ response }: Talk) => expect(response.ending).toBeUndefined())],
        ...[go({ run: 0 }), on(0, end)]
      ],
      sees: [primer, 'result', 'end', ...AGED],
      then: ({ wires }) =>
        expect(wires[0]!.blocks.map(({ retry }) => retry)).toEqual([300, undefined])
    })
  })

  describe.each(['2025-06-18', '2026-07-28'])('at %s', version => {
    conversation('closes the connection of one that has announced itself', {
      ...{ ...SILENT, ...POLLING, version },
      client: [post, end],
      sees: AGED
    })
  })

  conversation('closes listen channels too', {
    ...{ options, ...POLLING, server: 'SDK v1', session: 'its own' },
    client: [listen, end, listen, end],
    sees: [...AGED, ...AGED],
    then: ({ wires: [first, again] }) =>
      expect(again!.response.headers.link).toBe(first!.response.headers.link)
  })

  it('is not seen by the official client, whose call outlasts many connections once it has been cut', async () => {
    const endpoint = sdkV1Stateful()
    const resumed = happenings('resumed')
    const { url } = await serve(endpoint, { disconnectAfter: 30, retry: 5 })
    const proxy = await createCutProxy({
      target: Number(new URL(url).port),
      plan: ({ message }) =>
        message?.method === 'tools/call' ? { by: 'rst', afterEvents: 1 } : undefined
    })
    const { client, errors } = await connectV1(`${proxy.url}/mcp`)
    const progress: unknown[] = []
    const call = client.callTool(
      { name: 'count', arguments: { key: 'k', n: 5, paced: true } },
      undefined,
      { onprogress: ({ message }) => progress.push(message) }
    )
    for (let n = 1; n <= 6; n++) {
      await resumed.nth(n * 2)
      endpoint.log.release('k')
    }
    expect(await call).toMatchObject({ content: [{ text: 'counted to 5' }] })
    expect(progress).toEqual(['1', '2', '3', '4', '5'])
    expect(endpoint.log.executions('k')).toBe(1)
    expect(errors.filter(({ message }) => !message.includes('disconnected'))).toEqual([])
  })
})
