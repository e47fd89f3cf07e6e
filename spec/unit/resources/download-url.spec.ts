// Which requests are for a download: those whose query has an id of our form, and is no longer than
// what we look into.

import { expect, it } from '@jest/globals'
import { LONGEST_FIELD } from '../../../lib/protocol/fields.js'
import { downloadNames } from '../../../lib/resources/download-url.js'

const ID = 'V1StGXR8_Z5jdHi6B-myT'

it.each([
  ['/mcp', []],
  [`/mcp?download=${ID}`, [ID]],
  [`/mcp?a=b&download=${ID}&download=x`, [ID, 'x']],
  ['/mcp?download=report.pdf', []],
  [`/download=${ID}`, []]
])('%s names %j', (url, names) => {
  expect(downloadNames(url)).toEqual(names)
})

it('a URL of more than 16 KiB names none', () => {
  const url = `/mcp?download=${ID}&rest=`
  const longest = url.padEnd(LONGEST_FIELD, 'x')
  expect(downloadNames(longest)).toEqual([ID])
  expect(downloadNames(`${longest}x`)).toEqual([])
})
