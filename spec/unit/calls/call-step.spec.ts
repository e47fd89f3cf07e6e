// The requests that wait for the same answer: who is passed on what the endpoint says before it.

import { describe, expect, it } from '@jest/globals'
import { CallStep } from '../../../lib/calls/call-step.js'
import type { CallReply } from '../../../lib/calls/call-reply.js'

function stepOf(...replies: { isFull?: boolean; acceptsEvents?: boolean }[]) {
  const step = new CallStep('token')
  const heard = replies.map(({ isFull = false, acceptsEvents = true }) => {
    const texts: string[] = []
    step.join({
      isFull,
      acceptsEvents,
      send: (_message, text) => void texts.push(text)
    } as Partial<CallReply> as CallReply)
    return texts
  })
  return { step, heard }
}

const notification = { method: 'notifications/message' }
const question = { id: 'q', method: 'elicitation/create' }

describe('what the endpoint says', () => {
  it('goes to all who listen, and waits where all of them are full', () => {
    const { step, heard } = stepOf({}, { acceptsEvents: false }, {})
    step.send(notification, 'n')
    expect(heard).toEqual([['n'], [], ['n']])
    expect([step.hasRoom, step.isFull]).toEqual([true, false])
    const full = stepOf({ isFull: true }, { isFull: true }).step
    expect([full.hasRoom, full.isFull]).toEqual([false, true])
  })

  it('has nowhere to go where nobody listens, and is waited for by nobody', () => {
    const { step } = stepOf({ acceptsEvents: false })
    expect([step.isListenedTo, step.hasRoom, step.isFull]).toEqual([false, false, false])
  })

  it('does not fill up a request that nobody reads while another one is read; questions reach both', () => {
    const { step, heard } = stepOf({ isFull: true }, {})
    expect([step.hasRoom, step.isFull]).toEqual([true, false])
    step.send(notification, 'n')
    step.send(question, 'q')
    step.send(notification, 'n')
    expect(heard).toEqual([['q'], ['n', 'q', 'n']])
  })
})
