import { afterEach, beforeEach, expect, it, jest } from '@jest/globals'
import {
  followTask,
  pollDelay,
  seenIn,
  type TaskServer
} from '../../../lib/client/tasks/follow-task.js'
import { toolCallIn } from '../../../lib/client/tasks/task-calls.js'
import { callTool, withEnvelope } from '../../helpers/mcp.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const TASK = JSON.stringify({ taskId: 'T', status: 'working', pollIntervalMs: 60_000 })

it('a task that is to be looked at rarely makes its client come again when that has waited', async () => {
  let looks = 0
  const get = (): Promise<string> => {
    looks++
    return Promise.resolve(TASK)
  }
  const said: string[] = []
  const followed = followTask(
    {
      server: { get } as unknown as TaskServer,
      call: toolCallIn(JSON.stringify(withEnvelope(callTool(1, 'any'))))!,
      signal: new AbortController().signal,
      say: json => void said.push(json)
    },
    seenIn(TASK)
  )
  await jest.advanceTimersByTimeAsync(44_999)
  expect(said).toEqual([])
  await jest.advanceTimersByTimeAsync(1)
  await followed
  expect(said.map(json => JSON.parse(json).result)).toEqual([
    {
      resultType: 'input_required',
      requestState: expect.stringContaining('{"taskId":"T","rounds":1,')
    }
  ])
  expect(looks).toBe(0)
})

it.each([
  [undefined, 1000],
  ['5', 1000],
  [-1, 20],
  [0, 20],
  [300, 300],
  [60_001, 60_000],
  [2 ** 31, 60_000],
  [Infinity, 60_000]
])('a server that asks for %p ms is asked again in %p', (asked, delay) => {
  expect(pollDelay(asked)).toBe(delay)
})
