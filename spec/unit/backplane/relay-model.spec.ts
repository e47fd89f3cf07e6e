// What one instance gets from another, over messages that are lost, doubled and reordered, while
// instances die: a prefix of what was sent, then the rest, or one word that there is none.
import { describe, expect, it } from '@jest/globals'
import { type Exchange, Relay } from '../../../lib/backplane/relay.js'

const SEEDS = Number(process.env['RELAY_SEEDS'] ?? 10_000)

/** mulberry32 */
function randomFrom(seed: number): () => number {
  let a = seed
  return () => {
    a = (a + 0x6d2b79f5) | 0
    let t = Math.imul(a ^ (a >>> 15), 1 | a)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

interface Flow {
  sent: number[]
  got: number[]
  hasEnded: boolean
  isComplete: boolean
}

const flow = (): Flow => ({ sent: [], got: [], hasEnded: false, isComplete: false })

function run(seed: number): void {
  const random = randomFrom(seed)
  const chance = (share: number): boolean => random() < share
  const loss = random() * 0.4
  const doubles = random() * 0.2
  const reorders = random() * 0.3
  let now = 0
  const wire: { to: 'a' | 'b'; from: 'a' | 'b'; kind: number; frame: Buffer }[] = []
  const dead = new Set<string>()
  const send = (from: 'a' | 'b') => (to: string, kind: number, frame: Uint8Array) => {
    if (dead.has(from)) return
    if (isLossy && chance(loss)) return
    const message = { from, to: to as 'a' | 'b', kind, frame: Buffer.from(frame) }
    wire.push(message)
    if (isLossy && chance(doubles)) wire.push(message)
  }
  let isLossy = true
  const begun = new Map<number, number>()
  const calls: { up: Flow; down: Flow; broken: number; isCancelled: boolean }[] = []

  const fill = (exchange: Exchange, to: Flow): void => {
    const size = 1 + Math.floor(random() * 40)
    const bytes = Array.from({ length: size }, () => Math.floor(random() * 256))
    to.sent.push(...bytes)
    exchange.write(Uint8Array.from(bytes))
  }

  const relays = {
    a: new Relay({ now: () => now, send: send('a'), accept: () => undefined }),
    b: new Relay({
      now: () => now,
      send: send('b'),
      accept: exchange => {
        let call: (typeof calls)[number] | undefined
        return {
          bytes: bytes => {
            if (call === undefined) {
              const index = bytes[0] as number
              begun.set(index, (begun.get(index) ?? 0) + 1)
              call = calls[index]
              answering.push({
                exchange,
                call: call as (typeof calls)[number],
                left: Math.floor(random() * 12)
              })
            }
            call?.up.got.push(...bytes)
            if (!chance(0.1)) return true
            paused.push(exchange)
            return false
          },
          end: () => void (call !== undefined && (call.up.isComplete = true)),
          drained: () => undefined,
          broken: () => undefined
        }
      }
    })
  }
  const answering: { exchange: Exchange; call: (typeof calls)[number]; left: number }[] = []
  const asking: { exchange: Exchange; call: (typeof calls)[number]; left: number }[] = []
  const paused: Exchange[] = []

  const count = 1 + Math.floor(random() * 3)
  for (let i = 0; i < count; i++) {
    const call = { up: flow(), down: flow(), broken: 0, isCancelled: false }
    calls.push(call)
    const exchange = relays.a.open('b', {
      bytes: bytes => {
        call.down.got.push(...bytes)
        if (!chance(0.1)) return true
        paused.push(exchange)
        return false
      },
      end: () => void (call.down.isComplete = true),
      drained: () => undefined,
      broken: () => void call.broken++
    })
    exchange.write(Uint8Array.of(i))
    call.up.sent.push(i)
    asking.push({ exchange, call, left: Math.floor(random() * 4) })
  }

  const step = (): void => {
    now += Math.floor(random() * 400)
    for (const side of [asking, answering])
      for (const one of side) {
        const to = side === asking ? one.call.up : one.call.down
        if (to.hasEnded || dead.has(side === asking ? 'a' : 'b') || !chance(0.5)) continue
        if (one.left-- > 0) fill(one.exchange, to)
        else {
          to.hasEnded = true
          one.exchange.end()
        }
      }
    for (const exchange of paused.splice(0)) exchange.resume()
    for (let left = wire.length; left > 0; left--) {
      const at = isLossy && chance(reorders) ? Math.floor(random() * wire.length) : 0
      const [message] = wire.splice(at, 1)
      if (message === undefined || dead.has(message.to)) continue
      relays[message.to].receive(message.from, message.kind, message.frame)
    }
    if (!dead.has('a')) relays.a.tick()
    if (!dead.has('b')) relays.b.tick()
  }

  const killAt = chance(0.2) ? Math.floor(random() * 30) : -1
  const cancelAt = chance(0.2) ? Math.floor(random() * 30) : -1
  for (let i = 0; i < 40; i++) {
    if (i === killAt) dead.add('b')
    if (i === cancelAt) {
      const [one] = asking
      if (one !== undefined && !one.call.down.isComplete) {
        one.call.isCancelled = true
        one.exchange.reset()
      }
    }
    step()
  }
  isLossy = false
  if (dead.has('b')) relays.a.peerGone('b', 'gone')
  for (
    let i = 0;
    i < 400 && relays.a.counts.mine + (dead.has('b') ? 0 : relays.b.counts.theirs) > 0;
    i++
  )
    step()

  for (const [i, call] of calls.entries()) {
    const isPrefix = ({ sent, got }: Flow): boolean => got.every((byte, at) => byte === sent[at])
    const fate = {
      seed,
      begun: (begun.get(i) ?? 0) <= 1,
      up: isPrefix(call.up),
      down: isPrefix(call.down),
      end: call.isCancelled
        ? call.broken
        : call.down.isComplete
          ? call.broken + (call.down.got.length === call.down.sent.length ? 0 : 1)
          : call.broken - 1,
      left: relays.a.counts.mine + [...relays.a.peers].length
    }
    if (!(fate.begun && fate.up && fate.down && fate.end === 0 && fate.left === 0))
      expect(fate).toEqual({ seed, begun: true, up: true, down: true, end: 0, left: 0 })
  }
  const rest = dead.has('b') ? 0 : relays.b.counts.theirs + [...relays.b.peers].length
  if (rest !== 0) expect({ seed, rest }).toEqual({ seed, rest: 0 })
}

describe('the relay between two instances, whatever happens to its messages', () => {
  it(`gives each side a prefix of what was sent, then the rest or one end, for ${SEEDS} seeds`, () => {
    for (let seed = 1; seed <= SEEDS; seed++) run(seed)
    expect(SEEDS).toBeGreaterThan(0)
  })
})
