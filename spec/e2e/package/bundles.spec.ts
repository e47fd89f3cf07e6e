// All entry points in one file, made by the bundlers that people use, without any setting for us:
// nothing that we import asks for a part of Node in a way that a bundle cannot answer.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installed } from '../../helpers/installed.js'
import { DOORS_WORK, root, run } from './project.js'

const here = join(root, 'spec/e2e/package')
const packages = installed('bundlers')
let folder: string
let application: string

beforeAll(async () => {
  await run(process.execPath, ['.config/ensure-dist.js'], root)
  folder = await mkdtemp(join(tmpdir(), 'express-mcp-streams-'))
  // In this repository, the settings of TypeScript lead to the sources.
  application = join(folder, 'application')
  await cp(join(here, 'consumers'), application, { recursive: true })
  await mkdir(join(application, 'node_modules'))
  await symlink(root, join(application, 'node_modules/express-mcp-streams'))
})

afterAll(() => rm(folder, { recursive: true, force: true }))

/** Bundles all entry points, and has the file do their jobs where it finds no package. */
async function bundled(bundler: string, format: string, entry: string): Promise<unknown> {
  const name = `${bundler}-${entry}.${format === 'esm' ? 'mjs' : 'cjs'}`
  const output = join(folder, name)
  const source = join(application, entry)
  const args = [join(here, 'bundle.js'), bundler, format, source, output, packages ?? '']
  await run(process.execPath, args, application)
  return JSON.parse(await run(process.execPath, [name], folder))
}

describe('a bundle', () => {
  it.each([
    ['esbuild', 'esm', 'doors.js'],
    ['esbuild', 'cjs', 'doors.js'],
    ['esbuild', 'cjs', 'doors.cjs']
  ])('by %s as %s of %s works', async (...how) => {
    expect(await bundled(...how)).toEqual(DOORS_WORK)
  })

  const others = packages === undefined ? it.skip : it
  others.each([
    ['webpack', 'esm', 'doors.js'],
    ['webpack', 'cjs', 'doors.js'],
    ['rollup', 'esm', 'doors.js'],
    ['rollup', 'cjs', 'doors.js']
  ])('by %s as %s of %s works', async (...how) => {
    expect(await bundled(...how)).toEqual(DOORS_WORK)
  })
})
