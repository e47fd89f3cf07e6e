// Messages are told apart by their members; and the shortcut past parsing must never miss a
// response.

import { describe, expect, it } from '@jest/globals'
import { fc } from '../../helpers/property.js'
import {
  errorResponse,
  isObject,
  isRequest,
  isRequestId,
  isResponse,
  mayHaveId,
  messagesOf,
  paramsOf
} from '../../../lib/protocol/json-rpc.js'

const REQUEST = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } }
const NOTIFICATION = { jsonrpc: '2.0', method: 'notifications/progress', params: {} }
const RESULT = { jsonrpc: '2.0', id: 1, result: {} }
const ERROR = { jsonrpc: '2.0', id: 'a', error: { code: 1, message: '' } }

describe('a body', () => {
  it.each<[unknown, readonly unknown[]]>([
    [REQUEST, [REQUEST]],
    [
      [REQUEST, NOTIFICATION],
      [REQUEST, NOTIFICATION]
    ],
    [[], []],
    [[1, null, 'a', [REQUEST], RESULT], [RESULT]],
    [null, []],
    [undefined, []],
    ['{"id":1}', []],
    [7, []],
    [true, []]
  ])('%j has the messages %j', (body, messages) => {
    expect(messagesOf(body)).toEqual(messages)
  })
})

describe('a message', () => {
  it.each([
    ['a request', REQUEST, true, false],
    ['a request with a text id', { ...REQUEST, id: 'x' }, true, false],
    ['a request with the id 0', { ...REQUEST, id: 0 }, true, false],
    ['a request with the id ""', { ...REQUEST, id: '' }, true, false],
    ['a notification', NOTIFICATION, false, false],
    ['a request whose id is null', { ...REQUEST, id: null }, false, false],
    ['a request whose id is an object', { ...REQUEST, id: {} }, false, false],
    ['a result', RESULT, false, true],
    ['a result that is null', { ...RESULT, result: null }, false, true],
    ['an error', ERROR, false, true],
    ['an error without id', { ...ERROR, id: null }, false, false],
    ['an id alone', { id: 1 }, false, false],
    ['a request and a result at once', { ...REQUEST, result: {} }, true, false],
    ['nothing', {}, false, false]
  ])('%s', (_name, message, request, response) => {
    expect([isRequest(message), isResponse(message)]).toEqual([request, response])
  })

  it('without params has an empty object in their place', () => {
    expect(paramsOf(REQUEST)).toEqual({ name: 'x' })
    for (const params of [undefined, null, [1], 'a', 1]) expect(paramsOf({ params })).toEqual({})
  })
})

it('an id is a text or a number', () => {
  expect(['', 'a', 0, 1.5].every(isRequestId)).toBe(true)
  expect([null, undefined, {}, [], true].some(isRequestId)).toBe(false)
})

it('an object is neither a list nor null', () => {
  expect(isObject({})).toBe(true)
  expect([null, undefined, [], 'a', 1].some(isObject)).toBe(false)
})

it('an error response is JSON-RPC, in one line', () => {
  expect(JSON.parse(errorResponse(1, { code: -32000, message: 'no' }))).toEqual({
    jsonrpc: '2.0',
    id: 1,
    error: { code: -32000, message: 'no' }
  })
  const full = errorResponse('a\nb', {
    code: -32000,
    message: 'line\r\nline',
    data: { reason: 'x' }
  })
  expect(JSON.parse(full)).toEqual({
    jsonrpc: '2.0',
    id: 'a\nb',
    error: { code: -32000, message: 'line\r\nline', data: { reason: 'x' } }
  })
  expect(full).not.toMatch(/[\r\n]/)
  expect(JSON.parse(errorResponse(null, { code: 1, message: '' })).id).toBeNull()
})

describe('the shortcut past parsing', () => {
  const may = (text: string) => {
    const bytes = Buffer.from(`##${text}##`)
    return mayHaveId(bytes, 2, bytes.length - 2)
  }

  it('is taken for notifications as the SDKs write them', () => {
    expect(may(JSON.stringify(NOTIFICATION))).toBe(false)
    expect(
      may(JSON.stringify({ method: 'notifications/message', params: {}, jsonrpc: '2.0' }))
    ).toBe(false)
  })

  it.each([
    ...[REQUEST, RESULT, ERROR, [NOTIFICATION], { ...NOTIFICATION, method: 'notificationsx' }].map(
      x => JSON.stringify(x)
    ),
    ...[
      '{"jsonrpc":"2.0","method":"notifications',
      '{ "jsonrpc":"2.0","method":"notifications/x"}',
      '',
      '{',
      'x'
    ],
    '{"jsonrpc":"2.0","method":"notifications'
  ])('is not taken for %s', text => {
    expect(may(text)).toBe(true)
  })

  it('is never taken for a request of MCP or a response, in whatever order its members come', () => {
    const members = fc.record(
      {
        jsonrpc: fc.constant('2.0'),
        id: fc.oneof(fc.string(), fc.integer()),
        method: fc.constantFrom('tools/call', 'ping', 'sampling/createMessage', 'roots/list'),
        params: fc.dictionary(fc.string(), fc.jsonValue()),
        result: fc.jsonValue(),
        error: fc.jsonValue()
      },
      { requiredKeys: ['id'] }
    )
    fc.assert(
      fc.property(members, fc.array(fc.nat(5)), (message, order) => {
        const entries = Object.entries(message)
        const key = ([name]: [string, unknown]) => order[name.length % (order.length || 1)] ?? 0
        const shuffled = Object.fromEntries(entries.sort((a, b) => key(a) - key(b)))
        if (isRequest(shuffled) || isResponse(shuffled))
          expect(may(JSON.stringify(shuffled))).toBe(true)
      })
    )
  })
})
