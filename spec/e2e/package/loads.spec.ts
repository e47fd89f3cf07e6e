// What an application pays for `import 'express-mcp-streams'` alone: the parts that it does not ask
// for stay on the disk, with their packages.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { build, type Metafile } from 'esbuild'
import { readFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { included, root, run } from './project.js'

/** Folders of what has a door of its own, but for what doors share with the main one. */
const OF_DOOR =
  /^\/\/ lib\/(?:backplane|client|features\/(?:cookie|sessions|tasks)|inspector|redis|resources|wires)\/.*/gm

/** Packages of parts that have a door of their own. */
const OF_DOORS = {
  'features/cookie': ['cookie', 'cookie-parser', 'cookie-signature'],
  resources: ['content-disposition', 'etag', 'fresh', 'mime', 'negotiator', 'range-parser']
}

beforeAll(() => run(process.execPath, ['.config/ensure-dist.js'], root))

/** A built file with all of ours that it imports, in one, minified; and the packages that it needs. */
async function bundle(
  file: string
): Promise<{ bytes: number; files: string[]; packages: string[] }> {
  const { metafile } = await build({
    entryPoints: [join(root, 'dist', file)],
    bundle: true,
    packages: 'external',
    platform: 'node',
    target: 'node20',
    format: file.endsWith('.cjs') ? 'cjs' : 'esm',
    minify: true,
    metafile: true,
    write: false,
    logLevel: 'error',
    outfile: 'out.js'
  })
  const [{ bytes, imports }] = Object.values(metafile.outputs) as [Metafile['outputs'][string]]
  const imported = imports.map(({ path }) => path).filter(path => !isBuiltin(path))
  const files = Object.keys(metafile.inputs)
  const packages = new Set([...imported, ...files.flatMap(file => included(join(root, file)))])
  return { bytes, files, packages: [...packages] }
}

describe('the main entry point', () => {
  it.each(['index.js', 'index.cjs'])('loads no package of a door, %s', async file => {
    const { packages } = await bundle(file)
    expect(packages.sort()).toEqual(['lru-cache', 'nanoid', 'obug'])
  })

  it.each(['index.js', 'index.cjs'])('loads no code of a door, %s', async file => {
    const { files } = await bundle(file)
    const texts = await Promise.all(files.map(name => readFile(join(root, name), 'utf8')))
    expect(texts.flatMap(text => text.match(OF_DOOR) ?? [])).toEqual([])
  })

  it('has at most 237 kB, minified', async () => {
    expect((await bundle('index.js')).bytes).toBeLessThan(237_000)
  })

  it('is in few files, as each takes heap for what it imports and exports', async () => {
    expect((await bundle('index.js')).files.length).toBeLessThan(6)
  })

  it.each([
    ['import', "await import('./dist/index.js')"],
    ['require', "require('./dist/index.cjs')"]
  ])('takes at most 1.7 MB of the heap beside Express, by %s', async (_way, load) => {
    const script = `
      // The code that has been compiled while it was loaded is let go of a little later.
      const heap = async () => {
        await new Promise(resolve => setTimeout(resolve, 100))
        gc()
        return process.memoryUsage().heapUsed
      }
      const measure = async () => {
        // Node 24 loads its own \`fetch\` with the first import of node:http, 1.8 MB.
        await Promise.all([import('express'), import('node:http'), import('node:https')])
        const before = await heap()
        ${load}
        return (await heap()) - before
      }
      measure().then(bytes => console.log(bytes))`
    const bytes = Number(await run(process.execPath, ['--expose-gc', '-e', script], root))
    expect(bytes).toBeLessThan(1_700_000)
  })
})

describe('a door', () => {
  it.each([
    [
      'required',
      'imported',
      "require('./dist/index.cjs')",
      "await import('./dist/features/cookie/index.js')"
    ],
    [
      'imported',
      'required',
      "await import('./dist/index.js')",
      "require('./dist/features/cookie/index.cjs')"
    ]
  ])('of a middleware that was %s cannot be %s, and says so', async (_main, _door, main, door) => {
    const script = `
      const mix = async () => {
        const { mcpStreams } = ${main}
        const { ownerCookie } = ${door}
        mcpStreams({ cookie: ownerCookie({ secret: 'x'.repeat(16) }) })
      }
      mix().catch(error => console.log(error.name + ': ' + error.message))`
    expect(await run(process.execPath, ['-e', script], root)).toBe(
      'TypeError: mcpStreams: option `cookie` is of another copy of the package: ' +
        'load `express-mcp-streams/cookie` as you load the middleware\n'
    )
  })

  it.each(Object.entries(OF_DOORS))('brings its packages: %s', async (door, packages) => {
    for (const end of ['js', 'cjs'])
      expect((await bundle(`${door}/index.${end}`)).packages).toEqual(
        expect.arrayContaining(packages)
      )
  })
})
