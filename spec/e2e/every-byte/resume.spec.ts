// The central test, first half: a call is cut at every byte of its response, and its client gets
// every message once.
//
// What a client can do after a cut is a function of the bytes that it got. So every offset, the 200
// KB event included, is covered in two ways: (1) the uncut response is read byte by byte, which
// says for each offset what the client has by then, and for each thing that it can have, a client
// resumes with just that, over the network; (2) the wire is really cut, by FIN, RST and silence in
// turn: on a call whose events come one by one at every byte of the head and of the 19 small
// events, at the first and last bytes of the big one, and at a dense sample inside it, where all
// offsets leave a client with the same; on one whose stream is finished by then, at every 7th of
// these.

import { describe, expect, it } from '@jest/globals'
import { createCutProxy, type CutBy } from '../../helpers/cut-proxy.js'
import { headersFor } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'
import {
  centralEndpoint,
  centralRequest,
  type CentralEndpoint,
  type Pace
} from '../../features/resume/central-call.js'
import { exchange, ResponseReader } from '../../features/resume/wire.js'

const KINDS: CutBy[] = ['fin', 'rst', 'silence']
/** Apart by a prime, so that the sample falls on every byte of the multi-byte characters. */
const SAMPLE_STEP = 1009
const EDGE = 100
const AT_ONCE = 16
const PER_PROXY = 240

/** A run without a cut: every byte of the response. */
async function uncut(url: string, endpoint: CentralEndpoint): Promise<Buffer> {
  const chunks: Buffer[] = []
  const { response, ended } = exchange(url, {
    ...centralRequest('uncut'),
    onBytes: chunk => chunks.push(chunk)
  })
  await ended
  expect(response.isComplete).toBe(true)
  expect(response.data).toEqual(endpoint.data)
  return Buffer.concat(chunks)
}

/**
 * What a client has after the first n bytes: the link or not, a last event id or not, and how many
 * messages.
 */
interface Holding {
  from: number
  hasLink: boolean
  /** Of the last event id: what follows the stream id. */
  cursor: string | undefined
  messages: number
}

const holdingOf = ({ link, lastEventId, data }: ResponseReader): Omit<Holding, 'from'> => ({
  hasLink: link !== undefined,
  cursor: lastEventId?.slice(21),
  messages: data.length
})

/** Reads byte by byte. One entry per change, so that each offset lies in exactly one. */
function holdings(bytes: Buffer): Holding[] {
  const reader = new ResponseReader()
  const found: Holding[] = [{ from: 0, ...holdingOf(reader) }]
  for (let offset = 1; offset <= bytes.length; offset++) {
    reader.feed(bytes.subarray(offset - 1, offset))
    const last = found.at(-1)!
    const now = holdingOf(reader)
    const isSame =
      now.hasLink === last.hasLink && now.cursor === last.cursor && now.messages === last.messages
    if (!isSame) found.push({ from: offset, ...now })
  }
  expect(reader.bytes).toBe(bytes.length)
  return found
}

/** The offsets at which the wire is really cut. */
function cutOffsets(bytes: Buffer, { data }: CentralEndpoint): number[] {
  const big = Buffer.from(
    data.reduce((longest, text) => (text.length > longest.length ? text : longest))
  )
  const start = bytes.indexOf(big)
  const end = start + big.length
  expect(start).toBeGreaterThan(0)
  const inside = (offset: number): boolean => offset > start + EDGE && offset < end - EDGE
  const offsets = Array.from({ length: bytes.length + 1 }, (_, offset) => offset)
  return offsets.filter(offset => !inside(offset) || offset % SAMPLE_STEP === 0)
}

/**
 * Resumes by the link, as a client that got these bytes can, and returns the data of all messages.
 */
async function resumeFrom(
  url: string,
  { link, lastEventId, data }: ResponseReader
): Promise<string[]> {
  const headers = headersFor({ version: '2025-11-25', lastEventId })
  const { response, ended } = exchange(new URL(link!, url), { headers })
  await ended
  expect(response.isComplete).toBe(true)
  expect(response.status).toBe(data.length === 20 ? 204 : 200)
  return [...data, ...response.data]
}

/** Runs a few at a time. */
async function each<T>(items: T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values()
  const worker = async (): Promise<void> => {
    for (const item of rest) await work(item)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

describe.each<[Pace, number]>([
  ['turn by turn', 1],
  ['in one go', 7]
])('a call of 20 events, written %s', (pace, step) => {
  it('leaves its client with enough to resume, whatever the offset of the cut', async () => {
    const endpoint = centralEndpoint(pace)
    const { url } = await serve(endpoint, { retry: 10 })
    const bytes = await uncut(url, endpoint)
    const found = holdings(bytes)
    // Nothing; the link with the head; the first id with the primer; then each event moves the
    // cursor by one.
    expect(found).toEqual([
      { from: 0, hasLink: false, cursor: undefined, messages: 0 },
      { from: bytes.indexOf('\r\n\r\n') + 4, hasLink: true, cursor: undefined, messages: 0 },
      { from: bytes.indexOf('data:\n\n') + 7, hasLink: true, cursor: '.0.1', messages: 0 },
      ...endpoint.data.map((_, i) => ({
        from:
          bytes.indexOf(`\ndata: {`, bytes.indexOf(`.${i + 1}\ndata: `)) +
          9 +
          Buffer.byteLength(endpoint.data[i]!),
        hasLink: true,
        cursor: `.${i + 1}`,
        messages: i + 1
      }))
    ])
    expect(bytes.length).toBeGreaterThan(200 * 1024)

    for (const { from } of found.filter(({ hasLink }) => hasLink)) {
      const name = `to ${from}`
      const holding = new ResponseReader()
      // The same bytes but for the id: a client of this run, read up to there.
      let rest = from
      const client = exchange(url, {
        ...centralRequest(name),
        onBytes: chunk => {
          if (rest > 0) holding.feed(chunk.subarray(0, rest))
          rest -= chunk.length
        }
      })
      await client.nthByte(from)
      client.leave()
      expect(await resumeFrom(url, holding)).toEqual(endpoint.data)
      expect(endpoint.executions.get(name)).toBe(1)
    }
  })

  it('loses no message and doubles none, wherever the wire is really cut', async () => {
    const endpoint = centralEndpoint(pace)
    const { url, streams } = await serve(endpoint, { retry: 10, maxBytes: 2 ** 25 })
    const port = Number(new URL(url).port)
    const bytes = await uncut(url, endpoint)
    const headEnd = bytes.indexOf('\r\n\r\n') + 4
    const offsets = cutOffsets(bytes, endpoint)
    expect(offsets.length).toBeGreaterThan(2000)
    const chosen = offsets.filter((_, i) => i % step === 0)

    for (let first = 0; first < chosen.length; first += PER_PROXY) {
      const proxy = await createCutProxy({
        target: port,
        plan: ({ headers }) => {
          const [by, afterBytes] = (headers['x-call'] ?? '').split(' ')
          return afterBytes === undefined
            ? undefined
            : { by: by as CutBy, afterBytes: Number(afterBytes) }
        }
      })
      const proxied = `${proxy.url}/mcp`
      await each(chosen.slice(first, first + PER_PROXY), async offset => {
        const by = KINDS[offset % KINDS.length]!
        const name = `${by} ${offset}`
        const client = exchange(proxied, centralRequest(name))
        await (by === 'silence' ? client.nthByte(offset) : client.ended)
        const { response } = client
        expect(response.bytes).toBe(offset)
        if (offset < headEnd) {
          // No head, no link: nothing to resume with, and the client knows that its call has
          // failed. The stream is all there.
          expect(response.link).toBeUndefined()
          while (!endpoint.ids.has(name)) await new Promise(setImmediate)
          response.link = `?stream=${endpoint.ids.get(name)}`
        }
        expect(await resumeFrom(url, response)).toEqual(endpoint.data)
        expect(endpoint.executions.get(name)).toBe(1)
      })
      await proxy.close()
    }
    expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })
  })
})
