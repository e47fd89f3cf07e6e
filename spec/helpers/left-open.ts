// Closes what each spec has opened by helpers, and fails its file if that leaves anything else open.
// `npm run spec -- --detectOpenHandles <file>` tells where that was opened.

import { afterAll, afterEach, beforeAll, beforeEach, jest } from '@jest/globals'
import type { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { closeAll, openNow } from './close-all.js'
import { endTime, passAnHour, resetTime } from './own-time.js'

const WATCHED = [
  'TCPServerWrap',
  'TCPSocketWrap',
  'TLSWrap',
  'ProcessWrap',
  'Worker',
  'Timeout',
  'Timer'
]
// What was closed just now needs a few turns of the event loop to be gone, on a busy machine more.
const ROUNDS = 100
const PAUSE = 20

let before: Map<string, number>
beforeAll(() => {
  before = open()
})

/** What the file has opened for all of its specs. */
let shared: ReadonlySet<unknown>
beforeEach(() => {
  shared = openNow()
})

afterEach(() => {
  resetTime()
  return closeAll(shared)
})

afterAll(async () => {
  await closeAll()
  passAnHour()
  for (let round = 0; round < ROUNDS && left().length > 0; round++) await pause(PAUSE)
  endTime()
  // Until version 24, Node goes through all storages that were ever used for each promise.
  const storage = Symbol.for('express-mcp-streams.context')
  ;(globalThis as { [storage]?: AsyncLocalStorage<unknown> })[storage]?.disable()
  if (left().length > 0) throw new Error(`left open: ${left().join(', ')}`)
})

function open(): Map<string, number> {
  const counts = new Map(WATCHED.map(kind => [kind, 0]))
  for (const kind of process.getActiveResourcesInfo())
    if (counts.has(kind)) counts.set(kind, counts.get(kind)! + 1)
  // Those of `resetTime`.
  if ('clock' in setTimeout) counts.set('Timer', jest.getTimerCount())
  return counts
}

function left(): string[] {
  return WATCHED.filter(kind => open().get(kind)! > before.get(kind)!)
}
