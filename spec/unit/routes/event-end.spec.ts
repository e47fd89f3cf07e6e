import { expect, it } from '@jest/globals'
import { isAtEnd } from '../../../lib/routes/event-end.js'

const after = (text: string, wasAtEnd = true): boolean => isAtEnd(Buffer.from(text), wasAtEnd)

it('knows where an event stream can go on', () => {
  expect(after('data: 1\n\n')).toBe(true)
  expect(after('data: 1\n\n: a comment\n')).toBe(true)
  expect(after('data: 1\n\n: a comm')).toBe(false)
  expect(after('data: 1\n\nid: 2\n')).toBe(false)
  expect(after('data: 1\n')).toBe(false)
  expect(after(': a comment\n')).toBe(true)
  expect(after(': a comment\n', false)).toBe(false)
  expect(after('retry: 10\n: a comment\n')).toBe(true)
  expect(after('x'.repeat(5000))).toBe(false)
  expect(after(`${'x'.repeat(5000)}\n\n`, false)).toBe(true)
})
