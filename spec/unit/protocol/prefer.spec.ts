// `Prefer: rel=stream`, alone or beside other preferences.

import { describe, expect, it } from '@jest/globals'
import { prefersStream, STREAM_PREFERENCE } from '../../../lib/protocol/prefer.js'

describe('a preference for streams', () => {
  it.each([
    STREAM_PREFERENCE,
    'rel=stream',
    'rel="stream"',
    'REL=Stream',
    ' rel = stream ',
    'rel=stream; x=1',
    'rel="stream";x',
    'respond-async, rel=stream',
    'respond-async,wait=10 , rel=stream , return=minimal',
    'note="a, rel=next, \\" b", rel=stream',
    'rel=stream, rel=next'
  ])('is in %j', prefer => {
    expect(prefersStream(prefer)).toBe(true)
  })

  it.each([
    undefined,
    '',
    ',',
    'rel',
    'rel=',
    'rel=streams',
    'rel=xstream',
    'xrel=stream',
    'stream',
    'rel=stream"',
    'rel=next',
    'respond-async',
    'note="a, rel=stream, b"',
    'note="\\", rel=stream, "',
    'note="a, rel=stream',
    'rel=next, rel=stream',
    'rel=',
    'rel= ; stream',
    `${`rel=${' '.repeat(1000)}stream x, `.repeat(15)}rel`,
    `rel=${' '.repeat(16_000)}stream x`,
    `rel=stream${','.repeat(100_000)}`
  ])('is not in %.40j', prefer => {
    expect(prefersStream(prefer)).toBe(false)
  })
})
