// Every link of every page leads somewhere; those to the repository's own files are relative.

import { describe, expect, it } from '@jest/globals'
import { existsSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { codesIn, page, pages, root, type Table, tablesOf } from './markdown.js'

const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
  homepage: string
  version: string
  scripts: Record<string, string>
}
const HOME = manifest.homepage.replace(/#.*$/, '')
const readme = page('README.md')

/** The file and the heading that a link leads to; `undefined`: to another site. */
function targetOf(file: string, link: string): { path: string; anchor: string } | undefined {
  if (/^\w+:/.test(link)) return undefined
  const [path = '', anchor = ''] = link.split('#')
  const folder = posix.dirname(file)
  const whole = path === '' ? file : path.startsWith('/') ? path.slice(1) : posix.join(folder, path)
  return { path: whole, anchor }
}

describe.each(pages)('$file', ({ file, links, fences }) => {
  const local = links.flatMap(link => {
    const target = targetOf(file, link)
    return target === undefined ? [] : [[link, target] as const]
  })

  it('has links that lead somewhere, relative within the repository', () => {
    expect(links.filter(link => link.startsWith(`${HOME}/blob`))).toEqual([])
    const broken = local.filter(
      ([, { path, anchor }]) =>
        !existsSync(root + path) || (anchor !== '' && !page(path).anchors.includes(anchor))
    )
    expect(broken.map(([link]) => link)).toEqual([])
  })

  it('has commands that exist', () => {
    const commands = fences
      .filter(({ language }) => language === 'sh')
      .flatMap(({ code }) => [...code.matchAll(/npm run ([\w-]+)/g)])
    const named = [
      ...codesIn(page(file).whole)
        .join('\n')
        .matchAll(/^npm run ([\w-]+)/gm)
    ]
    for (const [, script] of [...commands, ...named])
      expect(manifest.scripts).toHaveProperty([script!])
    const files = [...page(file).text.matchAll(/\bnode ((?:examples|spec)\/[\w./-]+)/g)]
    for (const [, path] of files) expect([path, existsSync(root + path!)]).toEqual([path, true])
  })
})

describe('the README', () => {
  it('is short, and has code first', () => {
    expect(readme.text.split(/\s+/).length).toBeLessThanOrEqual(1100)
    const [first] = readme.fences.filter(({ language }) => language === 'ts')
    expect(first!.line).toBeLessThan(30)
  })

  it('names all guides, and they a command that builds what it needs: a clone has no dist', () => {
    const guides = pages.filter(({ file }) => /^examples\/[\w-]+\/README\.md$/.test(file))
    for (const { file, text } of guides) {
      expect(readme.links).toContain(file)
      if (file.includes('operations')) continue
      const [, script] = /`(?:npm ci && )?npm (?:run )?([\w-]+)`/.exec(text)!
      expect(manifest.scripts).toHaveProperty([`pre${script}`], 'node .config/ensure-dist.js')
    }
  })

  it('names options that there are', () => {
    const [{ rows }] = tablesOf(page('lib/options.md').whole) as [Table]
    const options = codesIn(readme.section('Options'))
    expect(options.length).toBeGreaterThan(5)
    expect(rows.map(([option]) => option!.slice(1, -1))).toEqual(expect.arrayContaining(options))
  })

  it('names the version that there is', () => {
    expect(readme.text).toContain(`\n${manifest.version}, `)
  })
})

describe('the changelog', () => {
  const changelog = page('CHANGELOG.md')

  it('has what is not released on top', () => {
    const versions = changelog.headings.filter(heading => heading.startsWith('['))
    expect(versions[0]).toBe('[Unreleased]')
    for (const version of versions.slice(1))
      expect(version).toMatch(/^\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}$/)
  })

  it('sorts changes as Keep a Changelog does', () => {
    const kinds = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security']
    for (const heading of changelog.headings.slice(1)) {
      if (!heading.startsWith('[')) expect(kinds).toContain(heading)
    }
  })
})
