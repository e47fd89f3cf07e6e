// Every link of every page leads somewhere, and what npm shows leads there from anywhere.

import { describe, expect, it } from '@jest/globals'
import { existsSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { codesIn, page, pages, root, tablesOf } from './markdown.js'

const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
  homepage: string
  version: string
  scripts: Record<string, string>
}
/** Where the pages are for who has no clone. */
const HOME = manifest.homepage.replace(/#.*$/, '/blob/main/')
const readme = page('README.md')

/** The file and the heading that a link leads to; `undefined`: to another site. */
function targetOf(file: string, link: string): { path: string; anchor: string } | undefined {
  const local = link.startsWith(HOME) ? `/${link.slice(HOME.length)}` : link
  if (/^\w+:/.test(local)) return undefined
  const [path = '', anchor = ''] = local.replace('?raw=true', '').split('#')
  const folder = posix.dirname(file)
  const whole = path === '' ? file : path.startsWith('/') ? path.slice(1) : posix.join(folder, path)
  return { path: whole, anchor }
}

describe.each(pages)('$file', ({ file, links, fences }) => {
  const local = links.flatMap(link => {
    const target = targetOf(file, link)
    return target === undefined ? [] : [[link, target] as const]
  })

  it('has links that lead somewhere', () => {
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
  it('has guides whose commands build what they need: a clone has no dist', () => {
    const [rows] = tablesOf(readme.section('Guides')).map(({ rows }) => rows)
    const commands = rows!.flatMap(([guide]) => guide!.match(/`[^`]+`/) ?? [])
    expect(commands.length).toBeGreaterThan(8)
    for (const command of commands) {
      const [, script] = /^`npm (?:run )?([\w-]+)`$/.exec(command) ?? [command, command]
      expect(manifest.scripts).toHaveProperty([`pre${script}`], 'node .config/ensure-dist.js')
    }
  })

  it('is short', () => {
    expect(readme.text.split('\n').length).toBeLessThanOrEqual(250)
  })

  it('has links that lead somewhere from the page of a registry', () => {
    for (const link of readme.links) expect(link).toMatch(/^(https:|#)/)
  })

  it('names all guides, and they the programs beside them', () => {
    for (const { file } of pages.filter(({ file }) => /^examples\/[\w-]+\/README\.md$/.test(file)))
      expect(readme.links).toContain(HOME + file)
  })

  it('has the defaults of the options that it names', () => {
    const rows = (file: string) =>
      new Map(
        tablesOf(page(file).whole)
          .filter(({ columns }) => columns[0] === 'Option')
          .flatMap(({ columns, rows }) =>
            rows.map(row => [row[0]!, row[columns.indexOf('Default')]!])
          )
      )
    const all = rows('lib/options.md')
    for (const [option, cell] of rows('README.md')) {
      expect([...all.keys()]).toContain(option)
      const value = (text: string) => text.replace(/[`_]/g, '').replace(' MiB', ' * 1024 * 1024')
      if (option !== '`owner`') expect(value(cell)).toBe(value(all.get(option)!))
    }
  })

  it('names the version that a pack would have', () => {
    expect(readme.text).toContain(`express-mcp-streams-${manifest.version}.tgz`)
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
