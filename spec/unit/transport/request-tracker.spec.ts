// What a session remembers of its client's requests.

import { expect, it } from '@jest/globals'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { RequestTracker } from '../../../lib/transport/request-tracker.js'
import type { Stream } from '../../../lib/streams/stream.js'

const FIRST_WIRE = Symbol()
const SECOND_WIRE = Symbol()

it('recognises a request of an earlier wire, and keeps nothing of its stream', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const tracker = new RequestTracker()
  const facts = { id: 1, isAboutServer: false, hash: 'h' }
  const beginAndEnd = () => {
    const stream = { id: 's' } as Stream
    const request = { ...facts, wire: FIRST_WIRE, stream }
    tracker.begin(request)
    expect(tracker.end(request)).toBe(true)
    return new WeakRef(stream)
  }
  const stream = beginAndEnd()
  await new Promise(resolve => setImmediate(resolve))
  collectGarbage()
  expect(stream.deref()).toBeUndefined()
  const again = { ...facts, wire: SECOND_WIRE, stream: undefined }
  expect(tracker.findEarlier(again)).toMatchObject({ streamId: 's' })
  expect(tracker.findEarlier({ ...again, wire: FIRST_WIRE })).toBeUndefined()
  expect(tracker.findEarlier({ ...again, hash: 'other' })).toBeUndefined()
})
