// Good options and bad ones.

import { describe, expect, it } from '@jest/globals'
import { resumableFetch, type ResumableFetchOptions } from '../../../lib/client/index.js'
import { parseClientOptions } from '../../../lib/client/options.js'

describe('a bad option', () => {
  it.each<[string, unknown]>([
    ['fetch', 'fetch'],
    ['fetch', null],
    ['headers', null],
    ['headers', 'Authorization: x'],
    ['maxRetries', -1],
    ['maxRetries', '5'],
    ['maxRetries', NaN],
    ['minTimeout', -1],
    ['minTimeout', null],
    ['maxTimeout', '1s'],
    ['timeoutFactor', NaN],
    ['idleTimeout', -1],
    ['idleTimeout', 'never'],
    ['maxEventSize', null],
    ['onReconnect', {}],
    ['tasks', 1],
    ['retries', 3],
    ['toString', 3]
  ])('%s: %p is named by a TypeError', (name, value) => {
    const create = () => resumableFetch({ [name]: value } as ResumableFetchOptions)
    expect(create).toThrow(TypeError)
    expect(create).toThrow(`\`${name}\``)
  })
})

it.each<[string, unknown, string]>([
  ['maxRetries', '5', 'option `maxRetries` must be a number, 0 or more'],
  ['onReconnect', {}, 'option `onReconnect` must be a function'],
  ['tasks', 1, 'option `tasks` must be a boolean'],
  ['headers', 'x', 'option `headers` must be headers, or a function'],
  ['retries', 3, 'unknown option `retries`']
])('%s: %p: the error says what is wrong', (name, value, fault) => {
  const create = () => resumableFetch({ [name]: value } as ResumableFetchOptions)
  expect(create).toThrow(new TypeError(`resumableFetch: ${fault}`))
})

describe('the options', () => {
  it('all have a default', () => {
    const { fetch, onReconnect, ...rest } = parseClientOptions()
    expect(rest).toEqual({
      headers: {},
      maxRetries: 5,
      minTimeout: 500,
      maxTimeout: 30_000,
      timeoutFactor: 2,
      idleTimeout: 45_000,
      maxEventSize: 64 * 1024 * 1024,
      samePath: false,
      tasks: false
    })
    expect([typeof fetch, typeof onReconnect]).toEqual(['function', 'function'])
  })

  it('count as not given when they are undefined, and are not changed', () => {
    const options = Object.freeze({ maxRetries: undefined, idleTimeout: null, minTimeout: 0 })
    const settings = parseClientOptions(options)
    expect([settings.maxRetries, settings.idleTimeout, settings.minTimeout]).toEqual([5, null, 0])
  })

  it('take headers in every form that fetch knows', () => {
    for (const headers of [{ a: 'b' }, [['a', 'b']], new Headers({ a: 'b' }), () => ({ a: 'b' })])
      expect(parseClientOptions({ headers } as ResumableFetchOptions).headers).toBe(headers)
  })
})
