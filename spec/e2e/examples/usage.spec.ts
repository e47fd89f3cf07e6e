// Every example explains itself, and refuses what it does not understand.

import { expect, it } from '@jest/globals'
import { runExample } from './run-example.js'

const SECONDS = '--nope, extra, --seconds, --seconds 0, --seconds 301, --seconds 1e1'
const CUTS = '--nope, extra, --cuts, --cuts 0, --cuts 13, --cuts 1e1, --seed=-1'
const PLAYGROUND = '--nope, --port 70000, --pace 1, --open --cuts 3'
const FILES = ', list, get http://a/, toString http://a/, list http://a/ b, list a'

it.each<[file: string, help: RegExp, wrong: string, refusal: RegExp]>([
  ['quick-start/index.js', /--cuts/, CUTS, /^(--|Option|Unknown|Unexpected)[^]*Usage:/],
  ['report/index.js', /--seconds/, SECONDS, /Usage:/],
  ['slow-json/index.js', /--seconds/, SECONDS, /Usage:/],
  ['tasks/index.js', /--seconds/, '--nope, --seconds 0', /npm run tasks/],
  ['cluster/index.js', /REDIS_SERVER/, '--nope', /npm run cluster/],
  ['elicitation/index.js', /--yes/, '--nope, extra, --yes=1', /Usage:/],
  ['files/index.js', /Usage:/, '--size 0, --nope', /Usage:/],
  ['files/cli.js', /Usage:/, FILES, /Usage:/],
  ['playground/index.js', /--open/, PLAYGROUND, /Usage:/],
  ['browser/index.js', /^Usage: /, '--nope', /^Usage: /m],
  ['websocket/index.js', /^Usage: /, '--nope', /^Usage: /m]
])('examples/%s explains itself, and refuses what it does not understand', async (...row) => {
  const [file, help, wrong, refusal] = row
  const run = (line: string) => runExample(file, { args: line.match(/\S+/g) ?? [] })
  const [helped, ...refused] = await Promise.all(['--help', ...wrong.split(',')].map(run))
  expect(helped).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(help) })
  for (const { code, stdout, stderr } of refused) {
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(refusal)
  }
})
