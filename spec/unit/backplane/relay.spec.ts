// Exchanges between two instances, message by message.
import { describe, expect, it } from '@jest/globals'
import type { Exchange } from '../../../lib/backplane/exchange.js'
import {
  decodePositions,
  decodeResets,
  encodeData,
  encodePositions,
  encodeResets,
  KIND
} from '../../../lib/backplane/frames.js'
import { CREDIT } from '../../../lib/backplane/half-stream.js'
import { Relay } from '../../../lib/backplane/relay.js'

interface Side {
  readonly relay: Relay
  /** What this side has sent and has not been delivered: kinds, and frames. */
  readonly wire: { kind: number; frame: Buffer }[]
  readonly happened: string[]
  readonly accepted: Exchange[]
}

/** Two instances; messages go over when they are delivered. */
function pair(accepts = true, lease?: number) {
  let now = 1_000_000
  const side = (other: string): Side => {
    const made: Side = {
      wire: [],
      happened: [],
      accepted: [],
      relay: new Relay(
        {
          now: () => now,
          send: (peer, kind, frame) => {
            expect(peer).toBe(other)
            made.wire.push({ kind, frame: Buffer.from(frame) })
          },
          accept: exchange => {
            made.accepted.push(exchange)
            return accepts ? userOf(made.happened) : undefined
          }
        },
        lease
      )
    }
    return made
  }
  const [a, b] = [side('b'), side('a')]
  const deliver = (from: Side): number[] =>
    from.wire.splice(0).map(({ kind, frame }) => {
      const known =
        from === a ? b.relay.receive('a', kind, frame) : a.relay.receive('b', kind, frame)
      expect(known).toBe(true)
      return kind
    })
  const pass = (time: number): void => {
    now += time
    a.relay.tick()
    b.relay.tick()
  }
  /** Both ways, until nothing is left. */
  const settle = (): void => {
    while (a.wire.length + b.wire.length > 0) {
      deliver(a)
      deliver(b)
    }
  }
  return { a, b, deliver, pass, settle }
}

function userOf(happened: string[], takes = true) {
  return {
    bytes: (bytes: Uint8Array) => {
      happened.push(bytes.length < 100 ? Buffer.from(bytes).toString() : 'much')
      return takes
    },
    end: () => void happened.push('end'),
    drained: () => void happened.push('drained'),
    broken: (why: string) => void happened.push(why)
  }
}

const bytes = (text: string): Uint8Array => Buffer.from(text)

describe('an exchange', () => {
  it('is over at both ends, and forgotten, once its answer has been used', () => {
    const { a, b, settle, pass } = pair()
    const exchange = a.relay.open('b', userOf(a.happened))
    exchange.write(bytes('question'))
    exchange.end()
    settle()
    expect(b.happened).toEqual(['question', 'end'])
    b.accepted[0]!.write(bytes('answer'))
    expect(b.relay.counts).toEqual({ mine: 0, theirs: 1, bytes: 6 })
    b.accepted[0]!.end()
    settle()
    expect(a.happened).toEqual(['answer', 'end'])
    expect(exchange.isOver && b.accepted[0]!.isOver).toBe(true)
    for (const { relay } of [a, b]) {
      expect(relay.counts).toEqual({ mine: 0, theirs: 0, bytes: 0 })
      expect([...relay.peers]).toEqual([])
    }
    pass(20_000)
    expect([...a.wire, ...b.wire]).toEqual([])
  })

  it('keeps one peer for as long as there is one exchange with it', () => {
    const { a } = pair()
    const [one, two] = [a.relay.open('b', userOf([])), a.relay.open('b', userOf([]))]
    expect(one.id).not.toBe(two.id)
    one.reset()
    expect([...a.relay.peers]).toEqual(['b'])
    two.reset()
    expect([...a.relay.peers]).toEqual([])
  })

  it('is broken off at the other end by one message, from either side', () => {
    const { a, b, deliver } = pair()
    const one = a.relay.open('b', userOf(a.happened))
    one.write(bytes('one'))
    deliver(a)
    one.reset()
    one.reset()
    expect(deliver(a)).toEqual([KIND.resets])
    expect(b.happened).toEqual(['one', 'reset'])
    expect(a.happened).toEqual([])
    a.relay.open('b', userOf(a.happened)).write(bytes('two'))
    deliver(a)
    b.accepted[1]!.reset()
    expect(deliver(b)).toEqual([KIND.resets])
    expect(a.happened).toEqual(['reset'])
  })

  it('goes on where it was paused, and says so at once where much waits for it', () => {
    const { a, b, deliver, settle } = pair()
    const takes = { next: false }
    const user = userOf(a.happened)
    const bytesOf = (bytes: Uint8Array): boolean => (user.bytes(bytes), takes.next)
    const exchange = a.relay.open('b', { ...user, bytes: bytesOf })
    exchange.write(bytes('question'))
    settle()
    const [answering] = b.accepted
    expect(answering!.write(new Uint8Array(CREDIT))).toBe(false)
    answering!.end()
    settle()
    expect(a.happened).toEqual(['much'])
    expect(b.happened).toEqual(['question'])
    takes.next = true
    exchange.resume()
    expect(a.happened.at(-1)).toBe('end')
    expect(exchange.isOver).toBe(true)
    expect(deliver(a)).toEqual([KIND.positions])
    expect(b.happened).toEqual(['question', 'drained'])
    expect(answering!.isOver).toBe(true)
  })

  it('takes and says nothing more when it is over', () => {
    const { a, b, deliver } = pair()
    const exchange = a.relay.open('b', userOf(a.happened, false))
    exchange.write(bytes('one'))
    deliver(a)
    b.accepted[0]!.write(bytes('1'))
    b.accepted[0]!.write(bytes('2'))
    deliver(b)
    exchange.reset()
    deliver(a)
    exchange.resume()
    expect(exchange.write(new Uint8Array(2 * CREDIT))).toBe(true)
    exchange.end()
    expect(a.wire).toEqual([])
    expect(a.happened).toEqual(['1'])
  })

  it('says nothing more where its user breaks it off because of what has come', () => {
    const { a, b, deliver } = pair()
    const exchange = a.relay.open('b', {
      ...userOf(a.happened),
      end: () => exchange.reset()
    })
    exchange.write(bytes('question'))
    deliver(a)
    b.wire.length = 0
    b.accepted[0]!.end()
    deliver(b)
    expect(a.wire.map(({ kind }) => kind)).toEqual([KIND.resets])
  })

  it('is refused by one word, and not begun by a late copy of its first message', () => {
    const { a, b, deliver, pass } = pair(false)
    a.relay.open('b', userOf(a.happened)).write(bytes('one'))
    const [first] = a.wire
    deliver(a)
    expect(deliver(b)).toEqual([KIND.resets])
    expect(a.happened).toEqual(['reset'])
    expect(b.relay.counts.theirs).toBe(0)
    pass(59_999)
    b.relay.receive('a', KIND.data, first!.frame)
    expect(b.accepted).toHaveLength(1)
    expect(deliver(b)).toEqual([KIND.resets])
    // For a minute.
    pass(1)
    b.relay.receive('a', KIND.data, first!.frame)
    expect(b.accepted).toHaveLength(2)
  })

  it('ends with its instance, and others do not', () => {
    const { a } = pair()
    const exchange = a.relay.open('b', userOf(a.happened))
    a.relay.peerGone('c')
    expect(a.happened).toEqual([])
    a.relay.peerGone('b')
    a.relay.peerGone('b')
    expect(a.happened).toEqual(['gone'])
    expect(exchange.isOver).toBe(true)
    expect(a.wire).toEqual([])
  })

  it('is broken off when its own instance leaves', () => {
    const { a, b, settle } = pair()
    a.relay.open('b', userOf(a.happened)).write(bytes('one'))
    a.relay.open('b', userOf(a.happened)).write(bytes('two'))
    settle()
    a.relay.close()
    settle()
    expect(b.happened).toEqual(['one', 'two', 'reset', 'reset'])
  })
})

describe('what is lost between instances', () => {
  it('is asked for at once where a later message has come, and once in half a second', () => {
    const { a, b, deliver, pass } = pair()
    const exchange = a.relay.open('b', userOf(a.happened))
    for (const text of ['0', '1', '2', '3']) exchange.write(bytes(text))
    const [first, , third, fourth] = a.wire.splice(0)
    a.wire.push(first!, third!)
    deliver(a)
    expect(b.wire.map(({ kind }) => kind)).toEqual([KIND.positions])
    b.wire.length = 0
    a.wire.push(fourth!)
    deliver(a)
    expect(b.wire).toEqual([])
    b.relay.tick()
    b.wire.length = 0
    pass(499)
    a.wire.push(fourth!)
    deliver(a)
    expect(b.wire).toEqual([])
    pass(1)
    a.wire.push(fourth!)
    deliver(a)
    expect(deliver(b)).toEqual([KIND.positions])
    expect(deliver(a)).toEqual([KIND.data])
    expect(b.happened).toEqual(['0', '1', '2', '3'])
  })

  it('is asked for where it was the beginning', () => {
    const { a, b, deliver } = pair()
    const exchange = a.relay.open('b', userOf(a.happened))
    for (const text of ['0', '1', '2']) exchange.write(bytes(text))
    a.wire.splice(0, 2)
    deliver(a)
    expect(b.accepted).toEqual([])
    expect(deliver(b)).toEqual([KIND.positions])
    expect(deliver(a)).toEqual([KIND.data, KIND.data, KIND.data])
    expect(b.happened).toEqual(['0', '1', '2'])
  })

  it('is sent again after three seconds, where nothing has come after it', () => {
    const { a, b, deliver, pass } = pair()
    a.relay.open('b', userOf(a.happened)).write(bytes('one'))
    a.wire.length = 0
    pass(2999)
    expect(a.wire).toEqual([])
    pass(1)
    expect(deliver(a)).toEqual([KIND.data])
    expect(b.happened).toEqual(['one'])
  })

  it('is there after one silence, however much was lost, from the beginning on or not', () => {
    const all = Array.from({ length: 20 }, (_, i) => `${i}`)
    for (const kept of [0, 1]) {
      const { a, b, pass, settle } = pair()
      const exchange = a.relay.open('b', userOf(a.happened))
      for (const text of all) exchange.write(bytes(text))
      a.wire.splice(kept)
      settle()
      pass(3000)
      settle()
      expect(b.happened).toEqual(all)
    }
  })

  it('is sent again the sooner, the shorter the lease is that the instances have', () => {
    const { a, pass } = pair(true, 600)
    a.relay.open('b', userOf(a.happened)).write(bytes('one'))
    a.wire.length = 0
    pass(299)
    expect(a.wire).toEqual([])
    pass(1)
    expect(a.wire).toHaveLength(1)
  })

  it('is noticed by positions that go out every five seconds, where it was the last word', () => {
    const { a, b, deliver, pass, settle } = pair()
    a.relay.open('b', userOf(a.happened)).write(bytes('one'))
    settle()
    pass(0)
    settle()
    b.accepted[0]!.reset()
    b.wire.length = 0
    pass(4999)
    expect([...a.wire, ...b.wire]).toEqual([])
    pass(1)
    expect(deliver(a)).toEqual([KIND.positions])
    expect(deliver(b)).toEqual([KIND.resets])
    expect(a.happened).toEqual(['reset'])
  })

  it('is noticed by whoever has begun it, where the other end does not know it any more', () => {
    const { a, b, deliver, pass, settle } = pair()
    a.relay.open('b', userOf(a.happened)).write(bytes('one'))
    settle()
    a.relay.peerGone('b')
    pass(5000)
    expect(deliver(b)).toEqual([KIND.positions])
    expect(deliver(a)).toEqual([KIND.resets])
    expect(b.happened).toEqual(['one', 'reset'])
  })

  it('may be on its way: an exchange is not broken off of which nothing has come yet', () => {
    const { a, b, deliver, pass } = pair()
    const exchange = a.relay.open('b', userOf(a.happened))
    pass(5000)
    expect(deliver(a)).toEqual([KIND.positions])
    expect(b.wire).toEqual([])
    exchange.write(bytes('one'))
    deliver(a)
    expect(b.happened).toEqual(['one'])
  })
})

describe('messages between instances', () => {
  it('are malformed where they have not the length of what they say', () => {
    const { a } = pair()
    const name = { isMine: true, id: 1 }
    const position = { ...name, used: 0, seen: 0, gapEnd: 0, isKnown: false }
    const data = encodeData({ ...name, sequence: 0, isLast: false, bytes: new Uint8Array(0) })
    const whole: [number, Buffer][] = [
      [KIND.data, data],
      [KIND.positions, encodePositions([position])],
      [KIND.resets, encodeResets([name])]
    ]
    for (const [kind, frame] of whole) {
      expect(a.relay.receive('b', kind, frame.subarray(1))).toBe(false)
      expect(a.relay.receive('b', kind, frame)).toBe(true)
    }
    expect(a.relay.receive('b', 99, data)).toBe(false)
  })

  it('say all that they were given', () => {
    const positions = [
      { isMine: true, isKnown: false, id: 2 ** 32 - 1, used: 1, seen: 2, gapEnd: 3 },
      {
        isMine: false,
        isKnown: true,
        id: 4,
        used: 2 ** 32 - 1,
        seen: 2 ** 32 - 2,
        gapEnd: 2 ** 32 - 3
      }
    ]
    expect(decodePositions(encodePositions(positions))).toEqual(positions)
    const resets = positions.map(({ isMine, id }) => ({ isMine, id }))
    expect(decodeResets(encodeResets(resets))).toEqual(resets)
  })

  it('are written as the instances of another release read them', () => {
    const name = { isMine: true, id: 0x01020304 }
    const hex = (frame: Buffer): string => frame.toString('hex')
    const chunk = { ...name, sequence: 5, isLast: true, bytes: Uint8Array.of(0xff) }
    expect(hex(encodeData(chunk))).toBe('03' + '01020304' + '00000005' + '00' + 'ff')
    const position = { ...name, used: 6, seen: 7, gapEnd: 8, isKnown: true }
    expect(hex(encodePositions([position]))).toBe('0301020304000000060000000700000008')
    expect(hex(encodeResets([name, { ...name, isMine: false }]))).toBe('01010203040001020304')
  })

  it('of one instance do not touch the exchanges of another', () => {
    const { a } = pair()
    const exchange = a.relay.open('b', userOf(a.happened))
    a.relay.receive('c', KIND.resets, encodeResets([{ isMine: false, id: exchange.id }]))
    expect(exchange.isOver).toBe(false)
    a.relay.receive('b', KIND.resets, encodeResets([{ isMine: false, id: exchange.id }]))
    expect(a.happened).toEqual(['reset'])
  })

  it('have positions by the thousand in one', () => {
    const { a, pass } = pair()
    for (let i = 0; i < 4097; i++) a.relay.open('b', userOf([]))
    pass(5000)
    expect(a.wire.map(({ frame }) => decodePositions(frame)?.length)).toEqual([4096, 1])
  })
})
