// Which instances live, by a clock of our own: a lease is 6,000 ms.
import { describe, expect, it } from '@jest/globals'
import { Life } from '../../../lib/backplane/life.js'
import type { Backplane, BackplaneCommand } from '../../../lib/backplane/types.js'

const LEASE = 6000
const settled = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

class Scene {
  now = 1_000_000
  /** The shared keys; each sign of life by its first byte. */
  readonly keys = new Map<string, number>()
  readonly commands: string[] = []
  readonly pings: string[] = []
  readonly farewells: BackplaneCommand[] = []
  lapses = 0
  openings = 0
  /** When each sign was given that was missing. */
  readonly missing: number[] = []
  renewals = 0
  /** Redis answers; `false`: not until it is `true` again; an error: it refuses. */
  answers: true | false | Error = true
  /** Messages come back. */
  echoes = true
  readonly life: Life
  #up: (isUp: boolean) => void = () => undefined

  constructor(isUp = true) {
    const backplane: Backplane = {
      secrets: [],
      lease: LEASE,
      dropped: 0,
      send: () => undefined,
      listen: async () => () => undefined,
      command: command => this.#command(command),
      onUp: listener => {
        this.#up = listener
        listener(isUp)
        return () => (this.#up = () => undefined)
      },
      renew: () => void this.renewals++
    }
    this.life = new Life(backplane, {
      tag: 'own',
      now: () => this.now,
      ping: tag => void this.pings.push(tag),
      keyOf: tag => tag,
      leaseExpired: () => void this.lapses++,
      opened: () => void this.openings++,
      missing: time => void this.missing.push(time),
      isStranger: async tag => tag === 'a stranger'
    })
    this.echo()
  }

  set isUp(isUp: boolean) {
    this.#up(isUp)
  }

  echo(): void {
    if (this.echoes && this.pings.includes('own')) this.life.heard('own')
    this.pings.length = 0
  }

  async #command(command: BackplaneCommand): Promise<unknown> {
    const [name, key = '', value] = command
    this.commands.push(`${name} ${key}`)
    if (this.answers instanceof Error) throw this.answers
    if (!this.answers) return new Promise(() => undefined)
    if (name === 'GET') return this.keys.has(key) ? Uint8Array.of(this.keys.get(key)!) : null
    if (value![0] === 0) this.farewells.push(command)
    this.keys.set(key, value![0] as number)
    return 'OK'
  }

  /** Time passes, by ticks of half a second. */
  async pass(time: number): Promise<void> {
    for (let left = time; left > 0; left -= 500) {
      this.now += Math.min(left, 500)
      this.life.tick()
      this.echo()
      await settled()
    }
  }

  /** How often it has said that it lives, since this was last asked. */
  signs(): number {
    return this.commands.splice(0).filter(command => command === 'SET own').length
  }
}

/** An instance that may judge others: its own messages have come back for a lease. */
async function sound(): Promise<Scene> {
  const scene = new Scene()
  await scene.pass(LEASE)
  scene.commands.length = 0
  return scene
}

describe('the sign of life', () => {
  it('is given once a message has come back, and then three times in a lease', async () => {
    const scene = new Scene(false)
    await scene.pass(LEASE)
    expect(scene.commands).toEqual([])
    expect(scene.life.state).toBe('down')
    scene.isUp = true
    expect(scene.signs()).toBe(0)
    expect(scene.openings).toBe(0)
    expect(scene.life.state).toBe('down')
    scene.echo()
    await settled()
    expect(scene.signs()).toBe(1)
    expect(scene.openings).toBe(1)
    expect(scene.life.state).toBe('up')
    await scene.pass(1999)
    expect(scene.signs()).toBe(0)
    await scene.pass(1)
    expect(scene.signs()).toBe(1)
    await scene.pass(2 * LEASE)
    expect(scene.signs()).toBe(6)
    expect([scene.openings, scene.lapses, scene.renewals]).toEqual([1, 0, 0])
    expect(scene.missing).toEqual([])
  })

  it('is not given while nothing comes back: the connection is made anew', async () => {
    const scene = await sound()
    scene.echoes = false
    await scene.pass(2000)
    await scene.pass(2000)
    expect(scene.renewals).toBe(0)
    expect(scene.life.state).toBe('up')
    await scene.pass(2000)
    expect(scene.renewals).toBe(1)
    expect(scene.life.state).toBe('down')
    scene.signs()
    // And given time.
    await scene.pass(4000)
    expect(scene.renewals).toBe(1)
    await scene.pass(2000)
    expect(scene.renewals).toBe(2)
    expect(scene.signs()).toBe(0)
    scene.echoes = true
    await scene.pass(2000)
    expect(scene.life.state).toBe('up')
    expect(scene.signs()).toBe(1)
  })

  it('is given at once by a process that was asleep, whose connection is as it was', async () => {
    const scene = await sound()
    scene.signs()
    scene.now += 10 * LEASE
    // Its timers are first: what has come meanwhile has not been read.
    scene.life.tick()
    expect(scene.renewals).toBe(0)
    expect(scene.life.state).toBe('up')
    expect(scene.signs()).toBe(1)
    // Silence counts from then on.
    scene.echoes = false
    await scene.pass(4000)
    expect(scene.renewals).toBe(0)
    await scene.pass(2000)
    expect(scene.renewals).toBe(1)
  })

  it('says that others may have taken it for dead, where it comes later than a lease', async () => {
    const scene = await sound()
    scene.isUp = false
    scene.now += LEASE - 1
    scene.isUp = true
    scene.echo()
    await settled()
    expect(scene.lapses).toBe(0)
    scene.isUp = false
    scene.now += LEASE + 1
    scene.isUp = true
    scene.echo()
    await settled()
    expect(scene.lapses).toBe(1)
  })

  it('is missed where it has gone before its time, and no more than once', async () => {
    const scene = await sound()
    const given = scene.now
    scene.keys.clear()
    await scene.pass(2000)
    expect(scene.missing).toEqual([given])
    await scene.pass(2000)
    expect(scene.missing).toEqual([given])
    scene.isUp = false
    scene.now += LEASE
    scene.keys.clear()
    scene.isUp = true
    scene.echo()
    await settled()
    expect(scene.missing).toEqual([given])
  })

  it('is nothing to say by who has no connection', async () => {
    const scene = await sound()
    scene.isUp = false
    expect(scene.life.state).toBe('down')
    await scene.pass(2 * LEASE)
    expect(scene.commands).toEqual([])
    expect(scene.pings).toEqual([])
    expect(scene.renewals).toBe(0)
  })
})

describe('the link', () => {
  it('is degraded while keys cannot be written', async () => {
    const scene = await sound()
    scene.answers = new Error('OOM')
    await scene.pass(2000)
    expect(scene.life.state).toBe('degraded')
    scene.answers = true
    await scene.pass(2000)
    expect(scene.life.state).toBe('up')
  })

  it('is degraded where what comes back takes a sixth of a lease', async () => {
    const scene = await sound()
    scene.isUp = true
    scene.now += 999
    scene.echo()
    expect(scene.life.state).toBe('up')
    scene.isUp = true
    scene.now += 1000
    scene.echo()
    expect(scene.life.state).toBe('degraded')
  })
})

describe('another instance', () => {
  it('lives that was heard of within a third of a lease, without a question', async () => {
    const scene = await sound()
    scene.life.heard('other')
    scene.now += 1999
    expect(await scene.life.look('other')).toBe('alive')
    expect(scene.commands).toEqual([])
  })

  it('lives whose sign is there, which is believed for a sixth of a lease', async () => {
    const scene = await sound()
    scene.keys.set('other', 1)
    scene.life.heard('other')
    scene.now += 2000
    expect(await scene.life.look('other')).toBe('alive')
    expect(scene.commands).toEqual(['GET other'])
    scene.keys.delete('other')
    scene.now += 999
    expect(await scene.life.look('other')).toBe('alive')
    expect(scene.commands).toEqual(['GET other'])
    scene.now += 1
    void scene.life.look('other')
    expect(scene.commands).toEqual(['GET other', 'GET other'])
  })

  it('is gone without a sign, at once, that never was', async () => {
    const scene = new Scene()
    expect(await scene.life.look('a stranger')).toBe('gone')
    expect(scene.pings).toEqual([])
  })

  it('is gone that has said so, at once, which is believed for a lease', async () => {
    const scene = await sound()
    scene.keys.set('other', 0)
    expect(await scene.life.look('other')).toBe('gone')
    scene.keys.set('other', 1)
    scene.now += LEASE - 1
    expect(await scene.life.look('other')).toBe('gone')
    scene.now += 1
    expect(await scene.life.look('other')).toBe('alive')
  })

  it('that has gone is unknown where nobody could look for what is left of it', async () => {
    const scene = await sound()
    scene.keys.set('other', 0)
    expect(await scene.life.look('other')).toBe('gone')
    scene.isUp = false
    scene.answers = new Error('There is no connection')
    expect(await scene.life.look('other')).toBe('unknown')
    scene.isUp = true
    scene.answers = true
    expect(await scene.life.look('other')).toBe('gone')
  })

  it('that was taken for gone lives as soon as it is heard of', async () => {
    const scene = await sound()
    scene.keys.set('other', 0)
    expect(await scene.life.look('other')).toBe('gone')
    scene.life.heard('other')
    expect(await scene.life.look('other')).toBe('alive')
    scene.keys.set('other', 1)
    scene.now += 2000
    expect(await scene.life.look('other')).toBe('alive')
  })

  it('is gone without a sign that does not answer within five twelfths of a lease', async () => {
    const scene = await sound()
    const looked = scene.life.look('other')
    expect(scene.life.look('other')).toBe(looked)
    await settled()
    expect(scene.pings).toEqual(['other'])
    let known: string | undefined
    void looked.then(liveness => (known = liveness))
    await scene.pass(2499)
    expect(known).toBeUndefined()
    await scene.pass(1)
    expect(known).toBe('gone')
    // Once more, in case it has written its sign meanwhile.
    expect(scene.commands.filter(command => command === 'GET other')).toHaveLength(2)
  })

  it('has its time to answer from when the one who asks is awake again', async () => {
    const scene = await sound()
    const looked = scene.life.look('other')
    await settled()
    scene.now += LEASE
    scene.life.tick()
    await settled()
    scene.life.heard('other')
    await scene.pass(2500)
    expect(await looked).toBe('alive')
  })

  it('lives without a sign that answers', async () => {
    const scene = await sound()
    const looked = scene.life.look('other')
    await settled()
    scene.life.heard('other')
    await scene.pass(2500)
    expect(await looked).toBe('alive')
  })

  it('lives that gives its sign meanwhile', async () => {
    const scene = await sound()
    const looked = scene.life.look('other')
    await settled()
    scene.keys.set('other', 1)
    await scene.pass(2500)
    expect(await looked).toBe('alive')
  })

  it('is not judged by who has not heard himself for a lease', async () => {
    const scene = new Scene()
    await scene.pass(LEASE - 1)
    expect(await scene.life.look('other')).toBe('unknown')
    await scene.pass(1)
    const looked = scene.life.look('other')
    await settled()
    scene.isUp = false
    await scene.pass(2500)
    expect(await looked).toBe('unknown')
    expect(await scene.life.look('another')).toBe('unknown')
    // One who lives by its sign does.
    scene.keys.set('other', 1)
    expect(await scene.life.look('other')).toBe('alive')
  })

  it('is unknown where Redis refuses, and where it does not answer in time', async () => {
    const scene = await sound()
    scene.answers = new Error('no')
    expect(await scene.life.look('other')).toBe('unknown')
    scene.answers = false
    const looked = scene.life.look('other')
    let known: string | undefined
    void looked.then(liveness => (known = liveness))
    await scene.pass(2499)
    expect(known).toBeUndefined()
    await scene.pass(1)
    expect(known).toBe('unknown')
    await expect(Promise.race([scene.life.hasSigned('other'), scene.pass(2500)])).rejects.toThrow(
      'Redis does not answer'
    )
  })

  it('is unknown where a thousand others are being looked at', async () => {
    const scene = await sound()
    scene.answers = false
    for (let i = 0; i < 1000; i++) void scene.life.look(`other ${i}`)
    const asked = scene.commands.length
    expect(await scene.life.look('one more')).toBe('unknown')
    expect(scene.commands).toHaveLength(asked)
    await scene.pass(2500)
    scene.answers = true
    scene.keys.set('one more', 1)
    expect(await scene.life.look('one more')).toBe('alive')
  })
})

describe('an instance that leaves', () => {
  it('says so for an hour, and nothing after that', async () => {
    const scene = await sound()
    const looked = scene.life.look('other')
    await settled()
    await scene.life.close()
    expect(scene.farewells).toEqual([['SET', 'own', Uint8Array.of(0), 'PX', 3_600_000]])
    // Nobody waits for what it will not know any more.
    expect(await looked).toBe('unknown')
    expect(await scene.life.look('another')).toBe('unknown')
    expect(scene.life.state).toBe('down')
    scene.commands.length = 0
    await scene.pass(LEASE)
    scene.isUp = false
    scene.isUp = true
    scene.echo()
    expect(scene.signs()).toBe(0)
  })

  it('cannot say so without a connection, or where it is refused', async () => {
    const scene = await sound()
    scene.isUp = false
    await scene.life.close()
    expect(scene.commands).toEqual([])
    const other = await sound()
    other.answers = new Error('no')
    await other.life.close()
  })
})
