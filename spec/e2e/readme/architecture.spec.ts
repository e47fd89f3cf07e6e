// The architecture page against the code: its folders are those that there are, its arrows those
// that lint holds. Circles of types are held here, as lint sees none.

import { describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { codesIn, page, root, tablesOf } from './markdown.js'

const { rows } = tablesOf(page('lib/README.md').whole).find(
  ({ columns }) => columns[0] === 'Folder'
)!
const folders = new Map(
  rows.map(([folder, , imports]) => [codesIn(folder!)[0]!, codesIn(imports!)])
)

describe('the architecture page', () => {
  it('has every folder of lib, and no other', () => {
    const there = readdirSync(`${root}lib`, { withFileTypes: true })
      .filter(entry => entry.isDirectory())
      .flatMap(({ name }) =>
        name === 'features'
          ? readdirSync(`${root}lib/${name}`).map(feature => `${name}/${feature}`)
          : [name]
      )
    expect([...folders.keys()].sort()).toEqual(there.sort())
  })

  it('has the arrows that lint holds', () => {
    const lint = readFileSync(`${root}.config/eslint.config.js`, 'utf8')
    const held = [...lint.matchAll(/arrow\(\s*'([\w/-]+)',\s*\[([^\]]*)\]/g)].map(
      ([, folder, names]) =>
        [folder!, [...names!.matchAll(/'([\w./-]+)'/g)].map(([, name]) => name!)] as const
    )
    expect(held.map(([folder]) => folder).sort()).toEqual([...folders.keys()].sort())
    for (const [folder, names] of held) {
      const ofFolders = names.filter(name => !name.endsWith('.js')).sort()
      expect([folder, folders.get(folder)!.sort()]).toEqual([folder, ofFolders])
    }
  })

  it('names files that there are', () => {
    for (const name of codesIn(page('lib/README.md').whole).filter(code =>
      /^[\w-]+\.ts$/.test(code)
    ))
      expect(readdirSync(`${root}lib`)).toContain(name)
  })
})

describe('the files of lib', () => {
  it('import each other in no circle, types included', () => {
    expect(circleIn(importsOf(`${root}lib`))).toBeUndefined()
  })

  it('of the core import no feature and nothing else around it, types included', () => {
    const core = ['access', 'endpoint', 'http', 'protocol', 'readers', 'routes', 'streams']
    const isOfCore = (file: string): boolean => core.includes(file.split('/')[0]!)
    const arrows = [...importsOf(`${root}lib`)].flatMap(([file, targets]) =>
      isOfCore(file) ? targets.filter(one => !isOfCore(one)).map(one => `${file} -> ${one}`) : []
    )
    expect(arrows).toEqual([])
  })

  it('are at most 100 columns wide, with what prettier does not wrap', () => {
    const wide = filesOf(`${root}lib`).flatMap(file =>
      readFileSync(join(root, 'lib', file), 'utf8')
        .split('\n')
        .flatMap((line, i) => (line.length > 100 ? [`${file}:${i + 1}`] : []))
    )
    expect(wide).toEqual([])
  })

  it('would be found in a circle', () => {
    const imports = { 'a.ts': ['b.ts'], 'b.ts': ['c.ts', 'd.ts'], 'c.ts': [], 'd.ts': ['b.ts'] }
    expect(circleIn(new Map(Object.entries(imports)))).toEqual(['b.ts', 'd.ts', 'b.ts'])
  })
})

/** The TypeScript files of a folder and those in it. */
function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true })
    .map(String)
    .filter(file => file.endsWith('.ts'))
}

/** What each TypeScript file of a folder imports of it, or exports from it, types included. */
function importsOf(folder: string): Map<string, string[]> {
  const files = filesOf(folder)
  const from = /^(?:import|export|\})[^'\n]*'(\.[^']+)\.js'/gm
  return new Map(
    files.map(file => {
      const code = readFileSync(join(folder, file), 'utf8')
      const targets = [...code.matchAll(from)].map(([, target]) =>
        relative('.', join(dirname(file), `${target}.ts`))
      )
      return [file, targets.filter(target => files.includes(target))]
    })
  )
}

/** The first circle that there is, from a file back to it; `undefined`: none. */
function circleIn(imports: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>()
  const follow = (file: string, way: readonly string[]): string[] | undefined => {
    if (way.includes(file)) return [...way.slice(way.indexOf(file)), file]
    if (done.has(file)) return undefined
    for (const target of imports.get(file) ?? []) {
      const circle = follow(target, [...way, file])
      if (circle !== undefined) return circle
    }
    done.add(file)
    return undefined
  }
  for (const file of imports.keys()) {
    const circle = follow(file, [])
    if (circle !== undefined) return circle
  }
  return undefined
}
