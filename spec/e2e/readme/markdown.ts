// A Markdown file as its reader sees it: code fences, tables, links and the headings that they may
// point to.

import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../../', import.meta.url))

export interface Fence {
  /** The page that it stands on. */
  file: string
  language: string
  code: string
  /** Where the code starts, counted from 1 as editors do. */
  line: number
}

export interface Table {
  columns: string[]
  rows: string[][]
}

export class Markdown {
  readonly file: string
  readonly text: string
  readonly fences: Fence[]

  constructor(file: string) {
    this.file = file
    this.text = readFileSync(root + file, 'utf8')
    this.fences = [...this.text.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(
      ({ index, 1: language, 2: code }) => ({
        file,
        language: language!,
        code: code!,
        line: this.text.slice(0, index).split('\n').length + 1
      })
    )
  }

  /** What is not code. */
  get prose(): string {
    return this.text.replace(/^```[^]*?^```$/gm, '')
  }

  /** Where a word or a table of the page is looked for, if it is not in one section. */
  get whole(): string {
    return this.prose
  }

  /** Everything under a heading of the second level. */
  section(heading: string): string {
    const section = this.prose.split(/^## /m).find(text => text.startsWith(`${heading}\n`))
    if (section === undefined) throw new Error(`No section: ${heading}`)
    return section
  }

  get headings(): string[] {
    return [...this.prose.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading!)
  }

  /** Targets of all links. */
  get links(): string[] {
    return [...this.prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!)
  }

  /** What `#...` may point to: headings as GitHub and npm name them. */
  get anchors(): string[] {
    return this.headings.map(heading =>
      heading
        .toLowerCase()
        .replace(/[^\w\- ]/g, '')
        .replaceAll(' ', '-')
    )
  }
}

/** The pages of the repository. */
export const pages = [
  'README.md',
  'CHANGELOG.md',
  ...['lib', 'examples', '.github', 'spec'].flatMap(folder =>
    readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
      .filter(name => name.endsWith('.md'))
      .map(name => `${folder}/${name}`)
  )
].map(file => new Markdown(file))

/** A page by its file. */
export function page(file: string): Markdown {
  const found = pages.find(page => page.file === file)
  if (found === undefined) throw new Error(`No page: ${file}`)
  return found
}

/** The tables of a section; cells without the backslashes that pipes need. */
export function tablesOf(section: string): Table[] {
  return [...section.matchAll(/(?:^\|.*\|\n)+/gm)].map(([text]) => {
    const [columns, , ...rows] = text.trim().split('\n').map(cellsOf)
    return { columns: columns!, rows }
  })
}

function cellsOf(line: string): string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map(cell => cell.replaceAll('\\|', '|').trim())
}

/** The code that a piece of prose names. */
export function codesIn(prose: string): string[] {
  return [...prose.matchAll(/`([^`]+)`/g)].map(([, code]) => code!)
}
