import { expect, it } from '@jest/globals'
import { takesComments, type ResponseHead } from '../../../lib/routes/relay-head.js'

const LINK: [string, string[]] = ['link', ['<?stream=abcdeabcdeabcdeabcdea>; rel="stream"']]
const EVENTS: [string, string[]] = ['content-type', ['text/event-stream; charset=utf-8']]
const head = (...headers: [string, string[]][]): ResponseHead => ({ status: 200, headers })

it('lets comments be written where a stream of ours is passed on, and can be read', () => {
  expect(takesComments(head(EVENTS, LINK))).toBe(true)
  expect(takesComments(head(EVENTS))).toBe(false)
  expect(takesComments(head(['content-type', ['application/json']], LINK))).toBe(false)
  expect(takesComments(head(EVENTS, LINK, ['Content-Encoding', ['gzip']]))).toBe(false)
  expect(takesComments(head(EVENTS, LINK, ['content-encoding', ['identity']]))).toBe(true)
})
