// The newest connection wins: over a living one, over one whose wire is dead and has not said so,
// and over one that is stuck.

import { describe, expect, it } from '@jest/globals'
import { createCutProxy } from '../../helpers/cut-proxy.js'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import { get } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import {
  call,
  emitNotes,
  MODERN,
  mountScript,
  note,
  numbers,
  resume,
  streamIdOf,
  streamUrlOf,
  upTo
} from './setup.js'

const script = (messages: number) => (running: RawCall) => {
  running.open()
  emitNotes(running, 1, messages)
}

/** The ways back, by a URL, a stream id and a cursor. */
const WAYS: [string, (url: string, id: string, cursor: number) => Promise<OpenStream>][] = [
  ['the stream URL', (url, id, cursor) => resume(`${url}?stream=${id}`, `${id}.${cursor}`)],
  ['the endpoint', (url, id, cursor) => get(url, { ...MODERN, 'last-event-id': `${id}.${cursor}` })]
]

describe.each(WAYS)('a newer connection, by %s,', (_name, back) => {
  it('takes the stream over: the older one ends cleanly, and each event goes to one of them', async () => {
    const { url, calls, streams } = await mountScript(script(2))
    const first = await call(url)
    await first.take(3)
    const id = streamIdOf(first)
    const second = await back(url, id, 2)
    expect(second.status).toBe(200)
    expect(await first.ended).toBe('end')
    expect(streams.stats().connections).toBe(1)
    const running = calls[0]!
    expect(running.isClosed).toBe(false)
    running.emit(note(3))
    expect((await second.nextMessage()).params.data).toBe(3)
    running.result()
    expect(await second.ended).toBe('end')
    expect(numbers(first.messages())).toEqual([1, 2])
    expect(numbers(second.messages())).toEqual([3, 'result'])
  })

  it('may have an older cursor: it gets again what went to the other', async () => {
    const { url, calls } = await mountScript(script(5))
    const first = await call(url)
    await first.take(6)
    const second = await back(url, streamIdOf(first), 1)
    expect(await first.ended).toBe('end')
    calls[0]!.result()
    await second.ended
    expect(numbers(second.messages())).toEqual([2, 3, 4, 5, 'result'])
  })

  it('is taken over itself by a newer one: only the last goes on', async () => {
    const { url, calls, streams } = await mountScript(script(1))
    const first = await call(url)
    await first.take(2)
    const id = streamIdOf(first)
    const all = [first]
    for (const _ of upTo(5)) all.push(await back(url, id, 1))
    const last = all.pop()!
    expect(await Promise.all(all.map(stream => stream.ended))).toEqual(all.map(() => 'end'))
    calls[0]!.result()
    await last.ended
    expect(numbers(last.messages())).toEqual(['result'])
    expect(streams.stats()).toMatchObject({ resumes: 5, connections: 0 })
  })

  it('is slowed down where it is taken over again and again', async () => {
    const { url, calls, streams } = await mountScript(script(1))
    const all = [await call(url)]
    await all[0]!.take(2)
    const id = streamIdOf(all[0]!)
    for (const _ of upTo(7)) all.push(await back(url, id, 1))
    expect(await Promise.all(all.slice(0, 5).map(stream => stream.ended))).toEqual(
      Array(5).fill('end')
    )
    expect(streams.stats().connections).toBe(3)
    calls[0]!.emit(note(2))
    calls[0]!.result()
    expect(await Promise.all(all.map(stream => stream.ended))).toEqual(all.map(() => 'end'))
    expect(all.slice(5).map(stream => numbers(stream.messages()))).toEqual([[], [], [2, 'result']])
    expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })
  })

  it('takes a stream over from a dead connection within 100 ms, and never gets a 409', async () => {
    const { url, port, calls, streams } = await mountScript(script(3))
    const proxy = await createCutProxy({
      target: port,
      plan: () => ({ by: 'silence', afterEvents: 3 })
    })
    const took: number[] = []
    for (const n of upTo(5)) {
      const black = await call(`${proxy.url}/mcp`)
      await black.take(3)
      await proxy.nthCut(n)
      const running = calls[n - 1]!
      // Goes into the dead wire, and the server takes it for sent.
      running.emit(note(4))
      await new Promise(setImmediate)
      expect(streams.stats().connections).toBe(1)

      const id = streamIdOf(black)
      const since = performance.now()
      const resumed = await back(url, id, 2)
      await resumed.take(3)
      took.push(performance.now() - since)
      expect(resumed.status).toBe(200)
      running.result()
      await resumed.ended
      expect([...numbers(black.messages()), ...numbers(resumed.messages())]).toEqual([
        1,
        2,
        3,
        4,
        'result'
      ])
      black.destroy()
    }
    // Other processes may take the machine's time, but no client has to wait for anything.
    expect(Math.min(...took)).toBeLessThan(100)
    expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })
  })
})

describe('a connection whose client does not read', () => {
  const BIG = 'x'.repeat(64 * 1024)
  const COUNT = 320

  it('is taken over without waiting for the bytes in its buffers', async () => {
    const { url, calls, streams } = await mountScript(running => running.open(), {
      maxStreamBytes: 2 ** 26
    })
    const stuck = await call(url)
    await stuck.next()
    stuck.pause()
    const running = calls[0]!
    // More than the sockets between the two hold.
    for (let n = 1; n <= COUNT; n++) {
      running.emit(note(n, BIG))
      await new Promise(setImmediate)
    }
    const resumed = await resume(streamUrlOf(url, stuck))
    running.result()
    expect(await resumed.ended).toBe('end')
    expect(numbers(resumed.messages())).toEqual([...upTo(COUNT), 'result'])
    stuck.resume()
    // Cut off in the middle: a clean end would look like the whole.
    expect(['aborted', 'error']).toContain(await stuck.ended)
    expect(streams.stats().connections).toBe(0)
  })
})

describe('connections on different streams', () => {
  it('do not take each other over', async () => {
    const { url, calls } = await mountScript(script(1))
    const [one, two] = [await call(url), await call(url, {}, 2)]
    await Promise.all([one.take(2), two.take(2)])
    const again = await resume(streamUrlOf(url, one), `${streamIdOf(one)}.1`)
    expect(await one.ended).toBe('end')
    expect(two.ending).toBeUndefined()
    for (const running of calls) running.result()
    await Promise.all([again.ended, two.ended])
    expect(numbers(two.messages())).toEqual([1, 'result'])
    expect(numbers(again.messages())).toEqual(['result'])
  })
})
