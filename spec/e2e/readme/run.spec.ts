// Every snippet of every page runs as it is printed, in one process, against the package as it is
// built.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import ts from 'typescript'
import { page, pages, root, type Fence } from './markdown.js'

interface Outcome {
  file: string
  line: number
  faults: string[]
  served?: { link: string | null; text: string }
  stdout?: string
}

/** Frameworks that are not among our dependencies: these snippets are compiled alone. */
const ABSENT = /from '(fastify|@nestjs\/core)'/

const isCheck = ({ language, code }: Fence): boolean =>
  language === 'sh' && code.startsWith('curl ')
const programs = pages
  .flatMap(({ fences }) => fences)
  .filter(fence => fence.language === 'ts' && !ABSENT.test(fence.code))
// The check of the README goes to the first of its servers.
const [first, ...others] = programs
const [check] = page('README.md').fences.filter(isCheck)
const snippets = [first!, check!, ...others]

const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 }
const javaScriptOf = ({ language, code }: Fence): string =>
  language === 'ts' ? ts.transpileModule(code, { compilerOptions }).outputText : code

let outcomes: Outcome[]
let folder: string

beforeAll(async () => {
  const run = promisify(execFile)
  await run(process.execPath, ['.config/ensure-dist.js'], { cwd: root })
  // Inside of the package, so that its name leads to it.
  await mkdir(`${root}coverage`, { recursive: true })
  folder = await mkdtemp(join(root, 'coverage/snippets-'))
  const cwd = await mkdtemp(join(tmpdir(), 'snippets-'))
  const manifest = join(folder, 'manifest.json')
  const given = snippets.map(snippet => ({ ...snippet, code: javaScriptOf(snippet) }))
  await writeFile(manifest, JSON.stringify({ folder, snippets: given }))
  const script = join(root, 'spec/e2e/readme/run-snippets.js')
  const { stdout } = await run(process.execPath, [script, manifest], {
    cwd,
    timeout: 60_000,
    maxBuffer: 16 * 1024 * 1024,
    env: { ...process.env, NODE_OPTIONS: '' }
  })
  outcomes = JSON.parse(stdout.slice(stdout.lastIndexOf('\n[{"file"') + 1)) as Outcome[]
  await rm(cwd, { recursive: true })
}, 90_000)

afterAll(() => rm(folder, { recursive: true, force: true }))

describe('a snippet', () => {
  it.each(snippets.map((snippet, i) => [snippet.file, snippet.line, i] as const))(
    'of %s at line %d runs',
    (file, line, i) => {
      expect(outcomes[i]).toMatchObject({ file, line, faults: [] })
    }
  )

  it('that is a server answers with a stream that can be resumed', () => {
    const served = outcomes.filter(outcome => outcome.served !== undefined)
    expect(served.length).toBeGreaterThanOrEqual(5)
    for (const { file, line, served: answer } of served)
      expect([file, line, answer!.link]).toEqual([
        file,
        line,
        expect.stringMatching(/^<\?stream=[\w-]{21}>; rel="stream"$/)
      ])
  })

  it('is left out only where what it imports is not there', () => {
    for (const name of ['fastify', '@nestjs/core'])
      expect(existsSync(`${root}node_modules/${name}`)).toBe(false)
  })
})

describe('the check in the README', () => {
  it('sees the link, and events with ids', () => {
    const { stdout } = outcomes[1]!
    expect(stdout).toMatch(/^link: <\?stream=[\w-]{21}>; rel="stream"\r$/im)
    expect(stdout).toMatch(/^id: [\w-]{21}\.r1\.1$/m)
    expect(stdout).toContain('Counted to three')
  })
})
