// What a `Content-Type` is, and what an `Accept` takes.

import { describe, expect, it } from '@jest/globals'
import {
  acceptance,
  acceptsEvents,
  isEventStreamType,
  isJsonText,
  isJsonType
} from '../../../lib/protocol/media-types.js'
import { fc } from '../../helpers/property.js'

describe('event streams are accepted', () => {
  it.each([
    'text/event-stream',
    'Text/Event-Stream',
    'application/json, text/event-stream',
    'application/json,text/event-stream ; charset=utf-8',
    'text/event-stream;q=0.001',
    'text/event-stream;q=1',
    'text/event-stream;garbage;;, application/json',
    'text/event-stream;q=zero',
    'text/event-stream;note="a, b;q=0"',
    'text/*',
    '*/*;q=0, text/event-stream',
    'text/*;q=0, text/event-stream'
  ])('by %j', accept => {
    expect(acceptsEvents(accept)).toBe(true)
  })

  it.each([
    undefined,
    '',
    '*/*',
    'application/json',
    'application/json, */*',
    'text/event-streams',
    'xtext/event-stream',
    'application/json;note="text/event-stream"',
    'application/json;note="a, text/event-stream"',
    'text/event-stream;q=0',
    'text/event-stream; Q = 0.000 , application/json',
    'text/*, text/event-stream;q=0',
    '"unterminated, text/event-stream',
    `${'x/y, '.repeat(4000)}text/event-stream`
  ])('not by %j', accept => {
    expect(acceptsEvents(accept)).toBe(false)
  })
})

it.each([
  [undefined, 'any'],
  ['*/*', 'any'],
  ['*/*;q=0', 'refused'],
  ['application/*', 'named'],
  ['application/json;q=0, */*', 'refused'],
  ['text/html', 'refused']
])('JSON, by %j, is: %s', (accept, expected) => {
  expect(acceptance(accept, 'application/json')).toBe(expected)
})

it('whatever an `Accept` is, the answer comes, and is the same in any case', () => {
  const parts = fc.constantFrom('text', '/', 'event-stream', '*', ',', ';', 'q=0', '=', '"', '\\')
  fc.assert(
    fc.property(fc.array(parts, { maxLength: 30 }), words => {
      const accept = words.join('')
      expect(acceptsEvents(accept.toUpperCase())).toBe(acceptsEvents(accept))
    })
  )
})

it('a content type is read without its parameters, in any case', () => {
  const streams = ['text/event-stream', ' Text/Event-Stream ; charset=utf-8', 'text/event-stream;']
  expect(streams.map(isEventStreamType)).toEqual([true, true, true])
  const others = ['text/event-streams', 'text/event-stream-x; a=b', '', undefined, null]
  expect(others.map(isEventStreamType)).toEqual(others.map(() => false))
  const types = ['application/json', 'Application/JSON; x', 'text/json', 'a/b+json', 'a/json-seq']
  expect(types.map(isJsonType)).toEqual([true, true, false, false, false])
  expect(types.map(isJsonText)).toEqual([true, true, true, true, false])
})
