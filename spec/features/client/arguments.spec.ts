// What is no client, no request and no options, in the place of one: the error says which.

import { describe, expect, it } from '@jest/globals'
import {
  callResumable,
  callTask,
  reconnectingTransport,
  resumableFetch
} from '../../../lib/client/index.js'
import { POST } from './scripted.js'
import { HandlerContext } from '../../../lib/http/handler-context.js'

/** As from JavaScript. */
type Any = (...given: unknown[]) => unknown
const NO_OBJECTS = [null, 1, 'text', true]
const client = { request: () => Promise.resolve({}) }

describe.each([
  ['callResumable', callResumable as Any, 'method'],
  ['callTask', callTask as Any, 'name']
])('%s', (name, call, member) => {
  it.each([undefined, ...NO_OBJECTS, {}])('refuses %p as its client', async given => {
    const error = `${name}: \`client\` must be a client of the SDK, connected`
    await expect(call(given, { [member]: 'any' })).rejects.toThrow(new TypeError(error))
  })

  it.each([undefined, ...NO_OBJECTS, {}, { [member]: 1 }])(
    'refuses %p as its request',
    async given => {
      const error = `${name}: \`request\` must be an object with a string \`${member}\``
      await expect(call(client, given)).rejects.toThrow(new TypeError(error))
    }
  )

  it.each(NO_OBJECTS)('refuses %p as its options', async given => {
    const error = `${name}: options must be an object`
    await expect(call(client, { [member]: 'any' }, given)).rejects.toThrow(new TypeError(error))
  })

  it.each([...NO_OBJECTS, {}])('refuses %p as its signal', async signal => {
    const error = `${name}: option \`signal\` must be an AbortSignal`
    const called = call(client, { [member]: 'any' }, { signal })
    await expect(called).rejects.toThrow(new TypeError(error))
  })
})

it.each(NO_OBJECTS)('resumableFetch refuses %p as its options', given => {
  const error = new TypeError('resumableFetch: options must be an object')
  expect(() => (resumableFetch as Any)(given)).toThrow(error)
})

it.each(['text', {}])('%p as the signal of a call is for fetch to refuse, once', async signal => {
  const refused = { message: expect.stringContaining('AbortSignal') }
  for (const init of [{}, POST]) {
    const called = (resumableFetch() as Any)('http://127.0.0.1:9/', { ...init, signal })
    await expect(called).rejects.toMatchObject(refused)
  }
})

it.each([{ timeout: 2 ** 31 }, { wait: 2 ** 31 }, { timeout: 1e300 }])(
  'callResumable waits no shorter for %p than for what a timer can hold',
  async options => {
    const given: unknown[] = []
    const asking = { request: async (...args: unknown[]) => (given.push(args[2]), {}) }
    await callResumable(asking as never, { method: 'any' }, options)
    expect(given).toMatchObject([{ timeout: 2 ** 31 - 1 }])
  }
)

it('callTask waits no shorter than for what a timer can hold', async () => {
  const given: unknown[] = []
  const asking = { request: async (...args: unknown[]) => (given.push(args[2]), {}) }
  await callTask(asking as never, { name: 'any' }, { timeout: 2 ** 31 })
  expect(given).toMatchObject([{ timeout: 2 ** 31 - 1 }])
})

it.each([undefined, ...NO_OBJECTS, {}])('reconnectingTransport refuses to connect by %p', given => {
  const error = new TypeError('reconnectingTransport: `connect` must be a function')
  expect(() => (reconnectingTransport as Any)(given)).toThrow(error)
})

it.each([...NO_OBJECTS, { foo: 1 }])('disconnect() refuses %p', given => {
  const { disconnect } = HandlerContext.prototype
  const error = /^disconnect: (?:options must be an object|unknown option `foo`)$/
  expect(() => (disconnect as Any).call({}, given)).toThrow(error)
})
