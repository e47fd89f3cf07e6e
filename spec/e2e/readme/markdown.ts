// A Markdown file as its reader sees it: code fences, tables, links and the headings that they may
// point to.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../../', import.meta.url))

export interface Fence {
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
  readonly text: string
  readonly fences: Fence[]

  constructor(file: string) {
    this.text = readFileSync(root + file, 'utf8')
    this.fences = [...this.text.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(
      ({ index, 1: language, 2: code }) => ({
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
