// Behind the serverless adapters that people use, and the tools that inject requests in tests,
// every response is what it would be without the middleware.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { installed } from '../../helpers/installed.js'

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

const folder = installed('serverless')

interface Answer {
  status: number
  type: string
  text: string
}

beforeAll(() => {
  execFileSync(process.execPath, [fileOf('../../../.config/ensure-dist.js')])
}, 300_000)

describe('serverless adapters from npm', () => {
  const each = folder === undefined ? it.skip : it

  each.each([
    'serverless-http',
    '@codegenie/serverless-express',
    '@vendia/serverless-express',
    '@h4ad/serverless-adapter, at the end',
    '@h4ad/serverless-adapter, as a stream',
    'light-my-request',
    'node-mocks-http',
    'fetch-to-node'
  ])(
    '%s',
    adapter => {
      const args = [fileOf('adapters.js'), folder ?? '', adapter]
      const printed = execFileSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 })
      const outcomes = Object.entries(
        JSON.parse(printed) as Record<string, { bare: Answer; behind: Answer }>
      )
      expect(outcomes).toHaveLength(4)
      for (const [, { bare, behind }] of outcomes) {
        expect(bare.text).toContain('"result":{}')
        expect(behind).toEqual(bare)
      }
    },
    90_000
  )
})
