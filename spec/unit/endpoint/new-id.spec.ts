// The ids of streams: as unguessable as those of nanoid, and of the same characters.
import { expect, it } from '@jest/globals'
import { newId } from '../../../lib/endpoint/new-id.js'

it('has 21 characters that a URL takes as they are, each of which may be any of 64', () => {
  const ids = Array.from({ length: 5000 }, newId)
  expect(ids.filter(id => !/^[\w-]{21}$/.test(id))).toEqual([])
  const seen = Array.from({ length: 21 }, (_, at) => new Set(ids.map(id => id[at])).size)
  expect(seen).toEqual(Array.from({ length: 21 }, () => 64))
})

it('is never the same', () => {
  const ids = Array.from({ length: 5000 }, newId)
  expect(new Set(ids).size).toBe(5000)
})
