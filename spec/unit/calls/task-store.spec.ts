// How many tasks are kept, and whose: with the bounds that a server has.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { Task } from '../../../lib/calls/tasks/task.js'
import { TaskStore } from '../../../lib/calls/tasks/task-store.js'

const settings = {
  after: 0,
  ttl: { default: 3_600_000, max: 86_400_000 },
  pollInterval: 1000,
  maxPerOwner: 1000,
  tools: new Map(),
  limits: { maxTasks: 10_000, maxTaskBytes: 4_000_000, maxBytes: 8_000_000 }
}

const settled = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
const open = new Set<TaskStore>()

afterEach(() => {
  for (const tasks of open) {
    tasks.close()
    tasks.beginClosing()
  }
  open.clear()
})

function store(limits = settings.limits) {
  let last = 0
  const tasks = new TaskStore({ ...settings, limits }, () => `task-${++last}`, undefined)
  open.add(tasks)
  const create = (
    owner: string,
    sessionId?: string,
    ttl = settings.ttl.default
  ): Task | undefined => {
    const facts = { owner, sessionId, scope: owner }
    const task = new Task(facts, tasks, { ttl, pollInterval: 1000 })
    return tasks.add(task, 300) ? task : undefined
  }
  const kept = (owner: string): number => tasks.listFor(undefined, owner).length
  return { tasks, create, kept }
}

describe('10,000 creations by one owner', () => {
  it('are as many tasks as one owner may have, and cost nobody else any', () => {
    const { tasks, create, kept } = store()
    const others = ['b', 'c', 'd'].map(owner => create(owner)!)
    for (const task of others) task.settle({ kind: 'result', text: 'x'.repeat(1000) })
    const made = Array.from({ length: 10_000 }, () => create('a'))
    expect(made.filter(Boolean)).toHaveLength(1000)
    expect(made.slice(1000).some(Boolean)).toBe(false)
    expect(kept('a')).toBe(1000)
    expect(tasks.counts()).toEqual({ tasks: 1003, bytes: 1000 * 300 + 3 * 1000 })
    for (const { id, facts } of others)
      expect(tasks.find(id, facts.scope)).toMatchObject({ status: 'completed' })
    expect(create('e')).toBeDefined()
  })

  it('leave room for others, however many owners flood', () => {
    const { tasks, create, kept } = store()
    for (let n = 0; n < 20; n++) for (let i = 0; i < 1000; i++) create(`flood-${n}`)
    expect(tasks.counts().tasks).toBeLessThanOrEqual(settings.limits.maxTasks)
    // Who had come first keeps all.
    expect(kept('flood-0')).toBe(1000)
    tasks.close()
    expect(tasks.counts()).toEqual({ tasks: 0, bytes: 0 })
  })

  it('are not looked through for the tasks of another owner, or of another session', () => {
    const { tasks, create } = store()
    for (let i = 0; i < 500; i++) {
      create('a', 's')
      create('b', 'other')
    }
    const first = create('b', 's')!
    const second = create('b', 's')!
    const looks = jest.spyOn(Task.prototype, 'isOver', 'get')
    expect(tasks.listFor('s', 'b')).toEqual([first, second])
    expect(looks).toHaveBeenCalledTimes(2)
    looks.mockRestore()
    tasks.forget(first)
    expect(tasks.listFor('s', 'b')).toEqual([second])
    expect(tasks.listFor(undefined, 'b')).toEqual([])
  })

  it('are possible again as tasks go', () => {
    const { tasks, create } = store()
    const first = create('a')!
    for (let i = 0; i < 2000; i++) create('a')
    expect(create('a')).toBeUndefined()
    tasks.forget(first)
    expect(tasks.find(first.id, 'a')).toBeUndefined()
    expect(create('a')).toBeDefined()
    expect(create('a')).toBeUndefined()
  })
})

describe('tasks whose time is over', () => {
  afterEach(() => void jest.useRealTimers())

  it('go, whether or not anybody asks for them, and the others stay', () => {
    jest.useFakeTimers()
    const { tasks, create } = store()
    const [short, long] = [create('a', undefined, 40_000)!, create('a', undefined, 120_000)!]
    jest.advanceTimersByTime(39_000)
    expect(tasks.counts().tasks).toBe(2)
    jest.advanceTimersByTime(31_000)
    expect(tasks.counts()).toEqual({ tasks: 1, bytes: 300 })
    expect(tasks.find(short.id, 'a')).toBeUndefined()
    expect(tasks.find(long.id, 'a')).toBe(long)
    jest.advanceTimersByTime(90_000)
    expect(tasks.counts()).toEqual({ tasks: 0, bytes: 0 })
    expect(jest.getTimerCount()).toBe(0)
  })

  it('are not found meanwhile', () => {
    jest.useFakeTimers()
    const { tasks, create, kept } = store()
    const task = create('a', undefined, 1000)!
    jest.advanceTimersByTime(999)
    expect(kept('a')).toBe(1)
    jest.advanceTimersByTime(1)
    expect(kept('a')).toBe(0)
    expect(tasks.find(task.id, 'a')).toBeUndefined()
    expect(tasks.counts().tasks).toBe(0)
  })
})

describe('one owner alone', () => {
  it('may have eight ninths of all tasks', () => {
    const { create } = store({ ...settings.limits, maxTasks: 90 })
    expect(Array.from({ length: 90 }, () => create('a')).filter(Boolean)).toHaveLength(80)
    expect(create('b')).toBeDefined()
  })
})

describe('tasks that the endpoint works on', () => {
  it('are waited for until each has ended, or waits for its client', async () => {
    const { tasks, create } = store()
    await tasks.whenIdle()
    const [one, two] = [create('a')!, create('a')!]
    let isIdle = false
    const idle = tasks.whenIdle().then(() => (isIdle = true))
    one.settle({ kind: 'result', text: '{}' })
    await settled()
    expect(isIdle).toBe(false)
    two.openQuestions = 1
    two.changed()
    await idle
    await tasks.whenIdle()
  })

  it('are waited for no longer once their session has gone', async () => {
    const { tasks, create } = store()
    const task = create('a')!
    const idle = tasks.whenIdle()
    tasks.forget(task)
    await idle
  })
})
