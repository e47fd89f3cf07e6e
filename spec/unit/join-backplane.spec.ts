// An instance's place among others: which of the streams that end here the others are to find, and
// when it can take their requests.
import { afterEach, describe, expect, it, jest } from '@jest/globals'
import type { IncomingMessage } from 'node:http'
import { InstanceLink } from '../../lib/backplane/instance-link.js'
import { BackplaneSeat } from '../../lib/join-backplane.js'
import type { Stream } from '../../lib/streams/stream.js'
import { Hub } from '../helpers/backplane/memory.js'
import { closeAll, closeLater } from '../helpers/close-all.js'
import { listen } from '../helpers/listen.js'

afterEach(closeAll)

const nothing = (): undefined => undefined
const LIMITS = { maxEntries: 9, resultTime: 1000 }

interface Facts {
  readonly kind?: string
  readonly isHandshake?: boolean
  readonly isEphemeral?: boolean
  readonly last?: number
  readonly readers?: { count: number; isConnecting: boolean }
  readonly callKey?: string
}

/** Of a call that has ended with nobody there, unless it says otherwise. */
function streamOf({ last = 1, readers, ...facts }: Facts = {}): Stream {
  const known = readers ?? { count: 0, isConnecting: false }
  const hasReader = known.count > 0
  return {
    id: 'an id',
    kind: 'request',
    log: { last },
    readers: known,
    hasReader,
    ...facts
  } as unknown as Stream
}

function seat({ hub = new Hub(), before = [] as Stream[], hasRoom = true } = {}) {
  const saved: Stream[] = []
  const keys: string[] = []
  const times: number[] = []
  const parts = {
    table: { running: [], endedSince: (time: number) => (times.push(time), before) },
    idempotency: {
      keepStream: (key: string) => void keys.push(key),
      keepSince: (time: number) => void times.push(time)
    },
    report: nothing
  } as unknown as ConstructorParameters<typeof BackplaneSeat>[2]
  const made = new BackplaneSeat(hub.join(), LIMITS, parts)
  closeLater(() => made.link.close())
  jest.spyOn(made.link.results, 'save').mockImplementation(stream => {
    saved.push(stream)
    return hasRoom
  })
  return { seat: made, saved, keys, times }
}

const nextTurn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

describe('a stream that has ended', () => {
  it('is kept for the others where nobody reads it, and with it the key of its call', () => {
    const { seat: own, saved, keys } = seat()
    const streams = [streamOf(), streamOf({ callKey: 'a key' })]
    for (const stream of streams) own.ended(stream)
    expect(saved).toEqual(streams)
    expect(keys).toEqual(['a key'])
  })

  it('is not under its key where it is too much to be kept', () => {
    const { seat: own, keys } = seat({ hasRoom: false })
    own.ended(streamOf({ callKey: 'a key' }))
    expect(keys).toEqual([])
  })

  it('is not kept where its client reads it', () => {
    const { seat: own, saved } = seat()
    own.ended(streamOf({ readers: { count: 1, isConnecting: false } }))
    expect(saved).toEqual([])
  })

  it.each<[string, number, number]>([
    ['is not where its connection follows', 1, 0],
    ['is where none does', 0, 1]
  ])('with its first write %s', async (_what, count, times) => {
    const { seat: own, saved } = seat()
    const readers = { count: 0, isConnecting: true }
    own.ended(streamOf({ readers }))
    expect(saved).toEqual([])
    readers.count = count
    await nextTurn()
    expect(saved).toHaveLength(times)
  })

  it.each<Facts>([{ kind: 'listen' }, { isHandshake: true }, { isEphemeral: true }, { last: 0 }])(
    'is nothing to come back for with %j',
    facts => {
      const { seat: own, saved } = seat()
      own.ended(streamOf(facts))
      own.beginClosing(5000)
      own.ended(streamOf(facts))
      expect(saved).toEqual([])
    }
  )

  it('is kept where this instance leaves, whoever reads it, and so is what had ended just before', () => {
    const before = [streamOf(), streamOf()]
    const { seat: own, saved, times } = seat({ before })
    own.beginClosing(5000)
    expect(times).toEqual([5000, 5000])
    expect(saved).toEqual(before)
    const last = streamOf({ readers: { count: 1, isConnecting: false } })
    own.ended(last)
    expect(saved.at(-1)).toBe(last)
  })
})

describe('a request of another instance', () => {
  /** What comes of it. */
  function ask(hub: Hub, tag: string): Promise<string> {
    const host = { ...LIMITS, accept: nothing, lapsed: nothing, changed: nothing, report: nothing }
    const link = new InstanceLink(hub.join(), host)
    closeLater(() => link.close())
    return new Promise(resolve => {
      const head = JSON.stringify({ method: 'GET', url: '/', headers: [], socket: {} })
      const length = Buffer.alloc(4)
      length.writeUInt32BE(head.length)
      let text = ''
      const exchange = link.open(tag, {
        bytes: bytes => (text += Buffer.from(bytes).toString('latin1')) !== '',
        end: () => resolve(text.slice(text.indexOf('}') + 1)),
        drained: nothing,
        broken: resolve
      })
      exchange.write(Buffer.concat([length, Buffer.from(head)]))
      exchange.end()
    })
  }

  it('is refused where nobody has come here yet, so that nothing can be here', async () => {
    const hub = new Hub()
    expect(await ask(hub, seat({ hub }).seat.link.tag)).toBe('reset')
  })

  it('enters by the server that others have come to', async () => {
    const hub = new Hub()
    const { seat: own } = seat({ hub })
    const { url } = await listen((req: IncomingMessage, res) => {
      own.noteServer(req)
      res.end('here')
    })
    await (await fetch(url)).text()
    expect(await ask(hub, own.link.tag)).toContain('here')
    expect(await ask(hub, own.link.tag)).toContain('here')
  })
})
