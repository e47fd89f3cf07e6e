// Whatever an endpoint, a client and a stranger do with a task, and in whatever order: what has
// ended stays as it is, everybody is answered, and nothing is left behind.

import { expect, it } from '@jest/globals'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import { notification } from '../../helpers/mcp.js'
import type { Json } from '../../helpers/open-stream.js'
import { fc, times } from '../../helpers/property.js'
import {
  answer,
  ask,
  begin,
  elicitation,
  getTask,
  inputRequired,
  RESULT,
  serveTasks,
  type Setup
} from './setup.js'

const ACCEPT = { action: 'accept', content: {} }
const MINE = { headers: { authorization: 'Bearer mine' } }
const THEIRS = { headers: { authorization: 'Bearer theirs' } }
const ENDED = ['completed', 'failed', 'cancelled']

const steps = {
  result: (call: RawCall) => answer(call),
  failure: (call: RawCall) => answer(call, { ...RESULT, isError: true }),
  error: (call: RawCall) => call.error(-32603, 'broken'),
  status: ({ res }: RawCall) => res.writeHead(503).end('later'),
  break: ({ res }: RawCall) => res.destroy(),
  ask: (call: RawCall) => answer(call, inputRequired({ q: elicitation('?') }, 'state')),
  progress: (call: RawCall) =>
    call.emit(notification('notifications/progress', { progressToken: 1, progress: 1 })),
  events: (call: RawCall) => call.result(RESULT),
  get: undefined,
  update: undefined,
  cancel: undefined,
  stranger: undefined
}
type Step = keyof typeof steps

/** One request of a client; none changes what has ended. */
async function act({ url }: Setup, taskId: string, step: Step): Promise<void> {
  if (step === 'stranger') {
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      const { error } = await ask(url, method, { taskId, inputResponses: {} }, THEIRS)
      expect(error).toMatchObject({ code: -32602, data: { reason: 'task-unknown' } })
    }
    return
  }
  const before: Json = (await getTask(url, taskId, MINE)).result
  const keys = Object.keys(before.inputRequests ?? { 'r9.q': {} })
  const inputResponses = Object.fromEntries(keys.map(key => [key, ACCEPT]))
  if (step !== 'get') {
    const told = await ask(url, `tasks/${step}`, { taskId, inputResponses }, MINE)
    expect(told.result).toEqual({ resultType: 'complete' })
  }
  const after: Json = (await getTask(url, taskId, MINE)).result
  if (ENDED.includes(before.status)) expect(after).toEqual(before)
  if (step === 'cancel') expect(ENDED).toContain(after.status)
}

it('a task and all that may happen to it', async () => {
  const name = fc.constantFrom(...(Object.keys(steps) as Step[]))
  const script = fc.array(name, { minLength: 1, maxLength: 8 })
  const served = await serveTasks({ tools: { report: 'always' } })
  const { url, calls, streams } = served
  await fc.assert(
    fc.asyncProperty(fc.array(script, { minLength: 1, maxLength: 3 }), async scripts => {
      await Promise.all(
        scripts.map(async script => {
          const from = calls.length
          const taskId = await begin(url, 'report', MINE)
          const work = script.map(async step => {
            const say = steps[step]
            if (say === undefined) return act(served, taskId, step)
            // Whichever request of the endpoint's is open: that of another task, too.
            const open = calls.slice(from).find(({ res }) => !res.writableEnded && !res.destroyed)
            if (open !== undefined && !(open.res.headersSent && step !== 'break')) say(open)
          })
          await Promise.all(work)
          await act(served, taskId, 'cancel')
        })
      )
      // What nobody wants any more closes.
      for (const call of calls) await call.closed
      calls.length = 0
    }),
    { numRuns: times(15) }
  )
  await streams.close({ drain: 0 })
  expect(streams.stats()).toMatchObject({ tasks: 0, bytes: 0, live: 0 })
})
