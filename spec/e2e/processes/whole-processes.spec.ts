// What can only be seen of a whole process: errors that nobody catches, and two copies of the
// package. By its name, so from dist/.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { eventId } from '../../helpers/mcp.js'
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Json } from '../../helpers/open-stream.js'

const run = (file: string, ...args: string[]): string =>
  execFileSync(process.execPath, [fileURLToPath(new URL(file, import.meta.url)), ...args], {
    encoding: 'utf8',
    timeout: 500_000
  })
const seenBy = (file: string, ...args: string[]): Json => JSON.parse(run(file, ...args))

beforeAll(() => {
  run('../../../.config/ensure-dist.js')
})

describe('an onError that throws', () => {
  it('takes nothing from client or endpoint, and surfaces as an uncaught exception', () => {
    const seen = seenBy('throwing-listener.js')
    expect(seen).toMatchObject({ closes: 1, uncaught: ['from onError'], live: 0, finished: 1 })
    expect(seen.text).toMatch(
      /^data: \{"jsonrpc":"2.0","id":1,"error":\{"code":-31000,.*"reason":"no-response"\}\}\}$/m
    )
  })
})

describe('two copies of the package in one app', () => {
  it.each(['--imported-first', '--required-first'])(
    'the outer one takes the response, the inner one passes on (%s)',
    order => {
      const { link, text, finished } = seenBy('two-copies.js', order)
      expect(link).toMatch(/^<\?stream=[\w-]{21}>; rel="stream"$/)
      const id = link.slice('<?stream='.length, -'>; rel="stream"'.length)
      expect(text).toBe(
        `id: ${eventId(id, '0.1')}\nretry: 3000\ndata:\n\nid: ${eventId(id, 1)}\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n`
      )
      expect(finished).toEqual([1, 0])
    }
  )

  it.each(['--imported-first', '--required-first'])(
    'share the streams of a wire, where one has made them and the other follows them (%s)',
    order => {
      const { poll, resumed, isAnswered } = seenBy('two-copies-transport.js', order)
      expect(resumed.error).toBeUndefined()
      expect(resumed.result).toMatchObject({ status: 'completed' })
      expect([poll, isAnswered]).toEqual(['live', true])
    }
  )
})
