// The architecture page against the code: its folders are those that there are, its arrows those
// that lint holds.

import { describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync } from 'node:fs'
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
      .map(({ name }) => name)
    expect([...folders.keys()].sort()).toEqual(there.sort())
  })

  it('has the arrows that lint holds', () => {
    const lint = readFileSync(`${root}.config/eslint.config.js`, 'utf8')
    const held = [...lint.matchAll(/arrow\(\s*'(\w+)',\s*\[([^\]]*)\]/g)].map(
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
