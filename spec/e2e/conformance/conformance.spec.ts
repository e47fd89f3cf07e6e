// The official conformance suite: with the middleware mounted, not one check fewer passes than on
// the bare server.
import { beforeAll, describe, expect, it } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { compare, unproven } from './compare.js'
import { runSuite } from './suite.js'
import { variants } from './variants.js'

describe('the official suite', () => {
  // The servers import the package by its name, so from dist/.
  beforeAll(() => {
    execFileSync(process.execPath, [
      fileURLToPath(new URL('../../../.config/ensure-dist.js', import.meta.url))
    ])
  })

  it.each(variants)(
    '$name, $revision: every check that passes bare passes with the middleware',
    async variant => {
      const [bare, withMiddleware] = await Promise.all([
        // Where all have to pass, none can be lost.
        variant.proves === 'all' ? [] : runSuite(variant, { bare: true }),
        runSuite(variant, { bare: false })
      ])
      const lost = compare(bare, withMiddleware, variant.unseen).filter(row => row.lost.length > 0)
      expect(lost).toEqual([])
      expect(unproven(withMiddleware, variant.proves)).toEqual([])
    }
  )
})
