// A stream that grows as fast as the process can append, while it is replayed: no event is lost or
// doubled where the two meet.

import { describe, expect, it } from '@jest/globals'
import { isMessage } from '../../helpers/blocks.js'
import { gate } from '../../helpers/gate.js'
import { notification } from '../../helpers/mcp.js'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { post, resume } from '../../helpers/talk/client.js'
import { open, type Line } from '../../helpers/talk/endpoint.js'
import { talk, upTo } from '../../helpers/talk/index.js'

/** A generator that gives the same numbers in each run: a failure comes back. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const TEXTS = ['', 'x', 'grün €😀', 'y'.repeat(700), 'z'.repeat(3000)]
const LARGEST_BURST = 40
const MOST = 60_000

/**
 * Appends in bursts, one per turn of the event loop, until told to stop; then answers with how many
 * there were.
 */
function grower(random: (below: number) => number) {
  const stop = gate()
  let isStopped = false
  void stop.opened.then(() => (isStopped = true))
  let appended = 0
  const grow: Line = async ({ emit }) => {
    while (!isStopped && appended < MOST) {
      for (let rest = 1 + random(LARGEST_BURST); rest > 0; rest--) {
        const data = `${++appended} ${TEXTS[random(TEXTS.length)]}`
        emit(notification('notifications/message', { level: 'info', data }))
      }
      await new Promise(setImmediate)
    }
  }
  const endpoint = [open, grow, (call: RawCall) => call.result({ appended })]
  return { endpoint, stop: () => stop.open(), appended: () => appended }
}

/** The sequences of the messages of a connection, each of which must say the same. */
function sequencesOf(stream: OpenStream): number[] {
  return stream.blocks.filter(isMessage).map(({ id, data }) => {
    const sequence = Number(id!.split('.')[2])
    const { params, result } = JSON.parse(data!)
    expect(result === undefined ? Number.parseInt(params.data, 10) : result.appended + 1).toBe(
      sequence
    )
    return sequence
  })
}

const LIMITS = { maxStreamBytes: 2 ** 30, maxBytes: 2 ** 30 }
const SEEDS = [1, 2]

describe('a stream that the endpoint writes as fast as it can', () => {
  it.each(SEEDS)(
    'gives each event once to a client that is cut off again and again (seed %d)',
    async seed => {
      const random = randomFrom(seed)
      const growing = grower(random)
      const made = await talk({ endpoint: growing.endpoint, options: LIMITS })
      await made.plays(post)
      const got: number[] = []
      for (let round = 0; round < 60; round++) {
        const { response } = made
        // Some connections live for a block, some for a few hundred; some are cut in the midst of a
        // block.
        await response.take(1 + random(round % 5 === 0 ? 400 : 8))
        if (random(2) === 0) response.destroy()
        else response.reset()
        got.push(...sequencesOf(response))
        const after = response.blocks.at(-1)!.id!
        await made.plays(resume({ by: random(3) === 0 ? 'endpoint' : 'url', after }))
        expect(made.response.status).toBe(200)
      }
      const stream = made.response
      growing.stop()
      expect(await stream.ended).toBe('end')
      got.push(...sequencesOf(stream))
      expect(got).toEqual(upTo(growing.appended() + 1))
      expect(growing.appended()).toBeGreaterThan(1000)
      expect(growing.appended()).toBeLessThan(MOST)
    }
  )

  it.each(SEEDS)(
    'gives each connection all after its cursor, wherever that is, and without a gap (seed %d)',
    async seed => {
      const random = randomFrom(seed)
      const growing = grower(random)
      const made = await talk({ endpoint: growing.endpoint, options: LIMITS })
      await made.plays(post)
      const connections: [cursor: number, stream: OpenStream][] = [[0, made.response]]
      for (let round = 0; round < 40; round++) {
        const [cursor, stream] = connections.at(-1)!
        await stream.take(2 + random(10))
        // Of all that there is, or of the newest: each takes the older one over while that is being
        // written to.
        const known = growing.appended()
        const next = random(2) === 0 ? random(known) : Math.max(cursor, known - random(20))
        await made.plays(resume({ after: next }))
        connections.push([next, made.response])
      }
      growing.stop()
      for (const [i, [cursor, stream]] of connections.entries()) {
        // A clean end for those that were taken over, too.
        expect(await stream.ended).toBe('end')
        const got = sequencesOf(stream)
        expect(got).toEqual(upTo(got.length).map(n => cursor + n))
        if (i === connections.length - 1) expect(got.at(-1) ?? cursor).toBe(growing.appended() + 1)
      }
      expect(growing.appended()).toBeLessThan(MOST)
      expect(made.stats()).toMatchObject({ live: 0, connections: 0, resumes: 40 })
    }
  )
})
