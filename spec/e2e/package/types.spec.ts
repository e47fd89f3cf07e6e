// The types of all entry points in the projects that people have: without a check of libraries left
// out, with the oldest `lib`, each way of finding modules, and `types` that name nothing.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { manifest, root, run } from './project.js'

/** `.`, `./client`, and so on. */
const DOORS = Object.keys(manifest.exports).filter(door => !door.endsWith('.json'))
/** For pages too, which have no types of Node. */
const IN_PAGES = ['./client']
const PACKAGES = ['express-mcp-streams', '@types/node', 'undici-types']

let folder: string
/** Thousands of lines are the same each time. */
const parsed = new Map<string, ts.SourceFile>()

beforeAll(async () => {
  await run(process.execPath, ['.config/ensure-dist.js'], root)
  folder = await mkdtemp(join(tmpdir(), 'express-mcp-streams-'))
  for (const name of PACKAGES) {
    const link = join(folder, 'node_modules', name)
    await mkdir(dirname(link), { recursive: true })
    await symlink(name === 'express-mcp-streams' ? root : join(root, 'node_modules', name), link)
  }
})

afterAll(() => rm(folder, { recursive: true, force: true }))

/** A file for each door; all that they declare is checked, as `skipLibCheck` is false. */
async function errors(
  doors: readonly string[],
  endings: readonly string[],
  options: ts.CompilerOptions
): Promise<string[]> {
  const files: string[] = []
  for (const [i, door] of doors.entries())
    for (const ending of endings) {
      const file = join(folder, `door-${i}.${ending}`)
      const name = door.replace('.', 'express-mcp-streams')
      await writeFile(file, `import * as door from '${name}'\nexport const all: object = door\n`)
      files.push(file)
    }
  const all = {
    target: ts.ScriptTarget.ES2020,
    strict: true,
    skipLibCheck: false,
    noEmit: true,
    types: [],
    ...options
  }
  const host = ts.createCompilerHost(all)
  const { getSourceFile } = host
  host.getSourceFile = (name, ...others) => {
    const key = `${all.module} ${name}`
    const source = parsed.get(key) ?? getSourceFile(name, ...others)
    if (source !== undefined && !name.startsWith(folder)) parsed.set(key, source)
    return source
  }
  const program = ts.createProgram(files, all, host)
  return ts
    .getPreEmitDiagnostics(program)
    .map(
      ({ file, messageText }) =>
        `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`
    )
}

const { ModuleKind, ModuleResolutionKind } = ts
const OLDEST = ['lib.es2020.d.ts']
const ways: [string, string[], ts.CompilerOptions][] = [
  [
    'node10',
    ['ts'],
    { module: ModuleKind.CommonJS, moduleResolution: ModuleResolutionKind.Node10 }
  ],
  ['node16', ['mts', 'cts'], { module: ModuleKind.Node16 }],
  ['nodenext', ['mts', 'cts'], { module: ModuleKind.NodeNext }],
  ['bundler', ['ts'], { module: ModuleKind.ESNext, moduleResolution: ModuleResolutionKind.Bundler }]
]

describe('the types of all entry points', () => {
  it.each(ways)('are without an error, found as %s', async (_name, endings, way) => {
    expect(DOORS.length).toBeGreaterThan(10)
    const options = { ...way, lib: OLDEST, exactOptionalPropertyTypes: true }
    expect(await errors(DOORS, endings, options)).toEqual([])
  })

  it('are without an error where absent and undefined are one', async () => {
    expect(await errors(DOORS, ['mts'], { module: ModuleKind.NodeNext, lib: OLDEST })).toEqual([])
  })

  it('are each without an error, whichever is loaded alone', async () => {
    const options = { module: ModuleKind.NodeNext, lib: OLDEST }
    for (const door of DOORS.filter(name => !IN_PAGES.includes(name)))
      expect([door, await errors([door], ['mts'], options)]).toEqual([door, []])
  })

  it('are without an error in a page, which has none of Node', async () => {
    const options = { module: ModuleKind.ESNext, lib: [...OLDEST, 'lib.dom.d.ts'] }
    const moduleResolution = ModuleResolutionKind.Bundler
    expect(await errors(IN_PAGES, ['ts'], { ...options, moduleResolution })).toEqual([])
  })
})
