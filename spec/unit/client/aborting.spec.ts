// A caller's signal may last as long as its process: nothing stays on it that is of no more use.

import { describe, expect, it } from '@jest/globals'
import { getEventListeners } from 'node:events'
import { abortWith } from '../../../lib/client/aborting.js'

const listeners = ({ signal }: AbortController): number => getEventListeners(signal, 'abort').length

describe('abortWith', () => {
  it('aborts with a signal, at once where that has aborted', () => {
    const caller = new AbortController()
    const { controller } = abortWith(caller.signal)
    expect(controller.signal.aborted).toBe(false)
    caller.abort('gone')
    expect(controller.signal.reason).toBe('gone')
    expect(abortWith(caller.signal).controller.signal.reason).toBe('gone')
  })

  it.each<[string, (controller: AbortController, release: () => void) => void]>([
    ['is released', (_, release) => release()],
    ['has aborted', controller => controller.abort()]
  ])('no longer listens to a signal when it %s', (_, end) => {
    const caller = new AbortController()
    const { controller, release } = abortWith(caller.signal)
    expect(listeners(caller)).toBe(1)
    end(controller, release)
    expect(listeners(caller)).toBe(0)
  })

  it('does not begin to listen for a controller that has aborted already', () => {
    const caller = new AbortController()
    const over = new AbortController()
    over.abort()
    abortWith(caller.signal, over)
    expect(listeners(caller)).toBe(0)
  })
})
