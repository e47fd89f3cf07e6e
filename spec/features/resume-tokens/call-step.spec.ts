// The requests that wait for the same answer: who is told what the endpoint says before it.

import { describe, expect, it } from '@jest/globals'
import { CallStep } from '../../../lib/calls/call-step.js'
import type { CallReply } from '../../../lib/calls/call-reply.js'
import type { PendingMessage } from '../../../lib/calls/pending-messages.js'

function stepOf(...replies: { isFull?: boolean; acceptsEvents?: boolean }[]) {
  const step = new CallStep('token')
  const heard = replies.map(({ isFull = false, acceptsEvents = true }) => {
    const texts: string[] = []
    step.join({
      isFull,
      acceptsEvents,
      tell: (_message, text) => (texts.push(text), !isFull)
    } as Partial<CallReply> as CallReply)
    return texts
  })
  return { step, heard }
}

const notification: PendingMessage = { message: { method: 'notifications/message' }, text: 'n' }
const question: PendingMessage = { message: { id: 'q', method: 'elicitation/create' }, text: 'q' }

describe('what the endpoint says', () => {
  it('goes to all who listen, and stops the endpoint where all of them are full', () => {
    const { step, heard } = stepOf({}, { acceptsEvents: false }, {})
    expect(step.tell(notification)).toBe(true)
    expect(heard).toEqual([['n'], [], ['n']])
    expect(stepOf({ isFull: true }, { isFull: true }).step.tell(notification)).toBe(false)
  })

  it('does not fill up a request that nobody reads while another one is read; questions reach both', () => {
    const { step, heard } = stepOf({ isFull: true }, {})
    for (const told of [notification, question, notification]) expect(step.tell(told)).toBe(true)
    expect(heard).toEqual([['q'], ['n', 'q', 'n']])
  })
})

describe('a question that may have been lost', () => {
  const askedAgain = (step: CallStep): string[] => {
    const texts: string[] = []
    step.askAgain({
      tell: (_message, text) => (texts.push(text), true)
    } as Partial<CallReply> as CallReply)
    return texts
  }

  it('is asked again until it is answered, or withdrawn', () => {
    const { step } = stepOf({})
    step.tell(question)
    step.note([{ message: { id: 2, method: 'roots/list' }, text: 'r' }])
    expect(askedAgain(step)).toEqual(['q', 'r'])
    step.answered(2)
    expect(askedAgain(step)).toEqual(['q'])
    step.tell({
      message: { method: 'notifications/cancelled', params: { requestId: 'q' } },
      text: 'c'
    })
    expect(askedAgain(step)).toEqual([])
  })

  it('is not asked again once there is an answer', () => {
    const { step } = stepOf()
    step.tell(question)
    step.give({ kind: 'interim', result: '{}' })
    expect(askedAgain(step)).toEqual([])
  })
})
