// Timers that many calls share are of none of them.

import { expect, it } from '@jest/globals'
import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import '../../../lib/http/handler-context.js'
import { DueQueue, Waiting } from '../../../lib/streams/due-queue.js'
import { Sweep } from '../../../lib/streams/timer.js'

const calls = new AsyncLocalStorage<object>()

it.each<[string, (due: () => void) => void]>([
  ['what waits in a queue', due => new DueQueue(1).add(new Waiting(due))],
  ['what a sweep finds', due => new Sweep(1, () => (due(), false)).start()]
])('%s becomes due outside of the call that has begun it', async (_what, begin) => {
  const seen = await calls.run(
    {},
    () => new Promise<unknown>(resolve => begin(() => resolve(calls.getStore())))
  )
  expect(seen).toBeUndefined()
})

it('a call is not kept by what it has begun', async () => {
  const ends: (() => void)[] = []
  const call = (): WeakRef<object> => {
    const store = {}
    calls.run(store, () => {
      const queue = new DueQueue(1e6)
      queue.add(new Waiting(() => undefined))
      const sweep = new Sweep(1e6, () => true)
      sweep.start()
      ends.push(
        () => queue.close(),
        () => sweep.close()
      )
    })
    return new WeakRef(store)
  }
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const kept = call()
  for (let i = 0; i < 10 && kept.deref() !== undefined; i++) {
    await turn()
    collectGarbage()
  }
  expect(kept.deref()).toBeUndefined()
  for (const end of ends) end()
})
