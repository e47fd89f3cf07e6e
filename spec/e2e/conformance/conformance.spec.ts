// The official conformance suite: with the middleware mounted, not one check fewer passes than on
// the bare server.
import { beforeAll, describe, expect, it } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { compare, unproven } from './compare.js'
import { runSuite } from './suite.js'
import { variants } from './variants.js'

const check = (status: string, id = 'a-check') => ({ id, name: id, status })
const scenario = (...checks: object[]) => [{ scenario: 'a-scenario', checks }]

describe('the comparison', () => {
  it.each([
    ['SUCCESS', 'WARNING'],
    ['SUCCESS', 'FAILURE'],
    ['SUCCESS', 'SKIPPED'],
    ['WARNING', 'FAILURE'],
    ['INFO', 'WARNING']
  ])('calls a check lost that was %s and is %s', (was, is) => {
    const [row] = compare(scenario(check(was)), scenario(check(is)))
    expect(row?.lost).toMatchObject([{ id: 'a-check', was, is }])
  })

  it('calls a check lost that is gone', () => {
    const [row] = compare(scenario(check('SUCCESS')), scenario())
    expect(row?.lost).toMatchObject([{ id: 'a-check', was: 'SUCCESS', is: 'absent' }])
  })

  it('calls a check lost that is gone with its whole scenario', () => {
    const [row] = compare(scenario(check('SUCCESS')), [])
    expect(row?.lost).toMatchObject([{ id: 'a-check', was: 'SUCCESS', is: 'absent' }])
  })

  it('compares the nth check of a name with the nth', () => {
    const [row] = compare(
      scenario(check('SUCCESS'), check('FAILURE')),
      scenario(check('FAILURE'), check('SUCCESS'))
    )
    expect(row?.lost).toHaveLength(1)
  })

  it.each([
    ['FAILURE', 'SUCCESS'],
    ['WARNING', 'SUCCESS'],
    ['INFO', 'SUCCESS'],
    ['FAILURE', 'FAILURE']
  ])('lets a check be that was %s and is %s', (was, is) => {
    const [row] = compare(scenario(check(was)), scenario(check(is)))
    expect(row?.lost).toEqual([])
  })

  it('holds a check unproven that does not pass each time, or never ran', () => {
    const results = scenario(
      check('SUCCESS', 'once'),
      check('SUCCESS', 'twice'),
      check('WARNING', 'twice')
    )
    expect(unproven(results, ['once', 'twice', 'never'])).toEqual(['twice', 'never'])
    expect(unproven(results, 'all')).toEqual(['twice'])
  })
})

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
      const lost = compare(bare, withMiddleware).filter(row => row.lost.length > 0)
      expect(lost).toEqual([])
      expect(unproven(withMiddleware, variant.proves)).toEqual([])
    }
  )
})
