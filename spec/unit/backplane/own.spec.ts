// `backplane()`: the value of the option for a backplane of one's own.
import { describe, expect, it } from '@jest/globals'
import { backplane, type Backplane } from '../../../lib/backplane/index.js'
import { mcpStreams } from '../../../lib/index.js'
import { Hub } from '../../helpers/backplane/memory.js'

const own = (parts: object = {}): Backplane => Object.assign(new Hub().join(), parts)

describe('a backplane of one’s own', () => {
  it.each<[fault: string, own: unknown]>([
    ['must be an object', undefined],
    ['must be an object', 'redis://127.0.0.1'],
    ['must have a method `send`', {}],
    ['must have a method `renew`', own({ renew: true })],
    ['must have `secrets`', own({ secrets: [] })],
    ['must have `secrets`', own({ secrets: ['too short'] })],
    ['must have `secrets`', own({ secrets: 'a secret of the specs' })],
    ['must have a `lease` in milliseconds', own({ lease: 0 })],
    ["must have 'forward' or 'local' for `sessions`", own({ sessions: 'sticky' })]
  ])('%s', (fault, bad) => {
    const make = () => backplane(bad as Backplane)
    expect(make).toThrow(TypeError)
    expect(make).toThrow(`backplane: ${fault}`)
  })

  it('never has its secrets in an error', () => {
    expect(() => backplane(own({ secrets: ['hush'] }))).toThrow(/^(?!.*hush)/)
  })

  it('is no value of the option itself, which says what makes one', () => {
    expect(() => mcpStreams({ backplane: own() as never })).toThrow(
      'mcpStreams: option `backplane` must be what `backplane()` or `redisBackplane()` makes: ' +
        "import { backplane } from 'express-mcp-streams/backplane', or " +
        "import { redisBackplane } from 'express-mcp-streams/redis'"
    )
  })
})
