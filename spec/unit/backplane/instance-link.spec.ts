// One instance on the backplane: how it says that it leaves.
import { expect, it } from '@jest/globals'
import { InstanceLink } from '../../../lib/backplane/instance-link.js'
import type { BackplaneCommand } from '../../../lib/backplane/types.js'
import { Hub } from '../../helpers/backplane/memory.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'

const nothing = (): undefined => undefined

it('has left when the others can see it, however often it is told to leave', async () => {
  const hub = new Hub({ lease: 60_000 })
  const backplane = hub.join()
  const command = backplane.command.bind(backplane)
  let write = nothing as () => void
  const written = new Promise<void>(resolve => (write = resolve))
  const isWriting = gate()
  backplane.command = async (one: BackplaneCommand) => {
    if (one[0] === 'SET' && one[2][0] === 0) {
      isWriting.open()
      await written
    }
    return command(one)
  }
  const link = new InstanceLink(backplane, {
    ...{ maxEntries: 1, resultTime: 1, accept: nothing },
    ...{ lapsed: nothing, changed: nothing, report: nothing }
  })
  let left = 0
  const leaving = [link.close(), link.close()].map(closed => closed.then(() => left++))
  expect(link.isClosed).toBe(true)
  await isWriting.opened
  // Whatever does not wait for that would have come by now.
  await new Promise(setImmediate)
  expect(left).toBe(0)
  write()
  await Promise.all(leaving)
  expect([...hub.keys.values()].map(({ value }) => [...value])).toEqual([[0]])
})

it('counts what it says, and what it hears', async () => {
  const hub = new Hub()
  const host = {
    ...{ maxEntries: 1, resultTime: 1, accept: nothing },
    ...{ lapsed: nothing, changed: nothing, report: nothing }
  }
  const [one, other] = [new InstanceLink(hub.join(), host), new InstanceLink(hub.join(), host)]
  try {
    const before = other.stats
    one
      .open(other.tag, { bytes: () => true, end: nothing, drained: nothing, broken: nothing })
      .write(Uint8Array.of(1))
    const { stats } = one
    expect(stats).toMatchObject({ forwarded: 1, accepted: 0, bytes: 1 })
    // The other refuses, in a message of its own.
    await until(() => one.stats.forwarded === 0)
    expect(other.stats.received).toBeGreaterThan(before.received)
    expect(other.stats.sent).toBeGreaterThan(before.sent)
    expect(one.stats).toMatchObject({ bytes: 0, malformed: 0 })
  } finally {
    await Promise.all([one.close(), other.close()])
  }
})
