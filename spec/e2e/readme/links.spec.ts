// Every link of every page leads somewhere, and what npm shows leads there from anywhere.

import { describe, expect, it } from '@jest/globals'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { posix } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
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

describe('what operators may copy', () => {
  const file = (name: string) => readFileSync(`${root}examples/operations/${name}`, 'utf8')
  const recipe = readFileSync(`${root}spec/features/observe/metrics.spec.ts`, 'utf8')
  const figuresIn = (text: string) => new Set(text.match(/mcp_streams_[a-z_]*[a-z]/g))

  it('watches figures that there are', () => {
    const known = figuresIn(recipe)
    for (const name of ['alerts.yaml', 'grafana.json', 'README.md'])
      for (const figure of figuresIn(file(name)))
        expect([name, [...known]]).toEqual([name, expect.arrayContaining([figure])])
  })

  it('looks for lines that there are', () => {
    const sources = readdirSync(`${root}lib`, { recursive: true, encoding: 'utf8' })
      .filter(name => name.endsWith('.ts'))
      .map(name => readFileSync(`${root}lib/${name}`, 'utf8'))
      .join('\n')
    const [table] = tablesOf(page('examples/operations/README.md').section('Troubleshooting'))
    const lines = table!.rows.flatMap(([, look]) => codesIn(look!))
    const words = lines
      .filter(line => line.includes(' '))
      .flatMap(line => line.split(/(?:^POST )|…|[:,(]|\d{3}/))
      .map(text => text.replace(')', '').trim())
      .filter(text => text.length > 3)
    expect(words.length).toBeGreaterThan(10)
    for (const text of words) expect([text, sources.includes(text)]).toEqual([text, true])
  })

  it('can be read', () => {
    expect(JSON.parse(file('grafana.json')).panels).toHaveLength(6)
    expect(parse(file('alerts.yaml')).groups[0].rules).toHaveLength(4)
    const kinds = parseAllDocuments(file('kubernetes.yaml')).map(document => document.toJS().kind)
    expect(kinds).toEqual(['Deployment', 'Service'])
    expect(statSync(`${root}examples/operations/Dockerfile`).isFile()).toBe(true)
    expect(file('Dockerfile')).toMatch(/^CMD \["node", /m)
    // Each waits for longer than `close()` drains by default.
    const [app] = createRequire(import.meta.url)(
      `${root}examples/operations/ecosystem.config.cjs`
    ).apps
    expect(app).toMatchObject({ exec_mode: 'fork', instances: 1, kill_timeout: 25_000 })
    expect(parseAllDocuments(file('kubernetes.yaml'))[0]!.toJS().spec.template.spec).toMatchObject({
      terminationGracePeriodSeconds: 30
    })
  })
})
