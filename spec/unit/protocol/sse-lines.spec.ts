// Blocks whose data is replaced.

import { describe, expect, it } from '@jest/globals'
import { withData } from '../../../lib/protocol/sse-lines.js'

const changed = (block: string, data: string): string => {
  const bytes = new TextEncoder().encode(`before\n${block}after`)
  const to = bytes.length - 'after'.length
  return new TextDecoder().decode(withData(bytes, 'before\n'.length, to, data))
}

describe('a block', () => {
  it.each([
    ['data: a\n\n', 'b', 'data: b\n\n'],
    ['id: 1\ndata: a\nevent: message\n\n', 'b', 'id: 1\ndata: b\nevent: message\n\n'],
    [
      'id: 1\ndata: a\n: c\ndata\nretry: 1\n\n',
      'b\nc',
      'id: 1\ndata: b\ndata: c\n: c\nretry: 1\n\n'
    ],
    ['data:a\ndatabase: x\n\n', '', 'data: \ndatabase: x\n\n'],
    ['data: a\n\n', 'x\u2028y', 'data: x\u2028y\n\n']
  ])('%j with the data %j', (block, data, expected) => {
    expect(changed(block, data)).toBe(expected)
  })
})
