// What the README says that the package costs, as far as it can be weighed here.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { build } from 'esbuild'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { page, root } from './markdown.js'

const costs = page('README.md').section('What it costs').replace(/\s+/g, ' ')
const said = (pattern: RegExp): number => Number(pattern.exec(costs)?.[1])

/** kB that a page loads for some of the client's names, minified and zipped. */
async function weigh(names: string): Promise<number> {
  const contents = `export ${names} from './dist/client/index.js'`
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: root },
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    write: false
  })
  return gzipSync(outputFiles[0]!.contents, { level: 9 }).length / 1000
}

describe('the README', () => {
  beforeAll(() => promisify(execFile)(process.execPath, ['.config/ensure-dist.js'], { cwd: root }))

  it('knows how many packages this one needs', () => {
    const { dependencies } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
      dependencies: object
    }
    expect(costs).toContain('Fourteen small dependencies')
    expect(Object.keys(dependencies)).toHaveLength(14)
  })

  it('knows what the client weighs in a page, to a tenth', async () => {
    const [one, all] = [await weigh('{ resumableFetch }'), await weigh('*')]
    const [saidOfOne, saidOfAll] = [
      said(/`resumableFetch` is ([\d.]+) kB/),
      said(/the whole client ([\d.]+) kB/)
    ]
    expect(Math.abs(one / saidOfOne - 1)).toBeLessThan(0.1)
    expect(Math.abs(all / saidOfAll - 1)).toBeLessThan(0.1)
  })

  it('knows about what the package weighs on the disk', () => {
    const files = readdirSync(`${root}dist`, { recursive: true, encoding: 'utf8' })
    const sizes = files
      .map(name => statSync(`${root}dist/${name}`))
      .map(stats => (stats.isFile() ? stats.size : 0))
    const megabytes = sizes.reduce((sum, size) => sum + size, 0) / 1e6
    expect(Math.abs(megabytes / said(/, ([\d.]+) MB of it this package/) - 1)).toBeLessThan(0.25)
  })
})
