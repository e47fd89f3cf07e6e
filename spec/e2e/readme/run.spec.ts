// Every snippet of every page runs as it is printed, in one process, against the package as it is
// built.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
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
  /** What came of what it declares, by the mark of the exercise. */
  came: Record<string, unknown>
  /** Pieces of it that have not run. */
  unexecuted: string[]
}

const isCheck = ({ language, code }: Fence): boolean =>
  language === 'sh' && code.startsWith('curl ')
const programs = pages.flatMap(({ fences }) => fences).filter(fence => fence.language === 'ts')
// The check of the README goes to the server of its quick start, the second program.
const [first, server, ...others] = programs
const [check] = page('README.md').fences.filter(isCheck)
const snippets = [first!, server!, check!, ...others]

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
    timeout: 500_000,
    maxBuffer: 16 * 1024 * 1024,
    env: { ...process.env, NODE_OPTIONS: '' }
  })
  outcomes = JSON.parse(stdout.slice(stdout.lastIndexOf('\n[{"file"') + 1)) as Outcome[]
  await rm(cwd, { recursive: true })
})

afterAll(() => rm(folder, { recursive: true, force: true }))

describe('a snippet', () => {
  it.each(snippets.map((snippet, i) => [snippet.file, snippet.line, i] as const))(
    'of %s at line %d runs',
    (file, line, i) => {
      expect(outcomes[i]).toMatchObject({ file, line, faults: [] })
    }
  )

  it.each(snippets.map((snippet, i) => [snippet.file, snippet.line, i] as const))(
    'of %s at line %d runs as a whole',
    (file, _line, i) => {
      const left = outcomes[i]!.unexecuted.filter(piece => !NEVER.some(known => piece === known))
      expect([file, left]).toEqual([file, []])
    }
  )
})
/** What it takes something going wrong for. */
const NEVER = [
  "?? 'some'",
  "catch (error) {\n    if (!(error instanceof ResourceStreamError) || error.code !== 'not-streamable')\n" +
    '        throw error;\n    // It is small, or the server has no resources/stream: ask for it by ' +
    'resources/read.\n}',
  'else\n            res.writeHead(500).end();'
]

const stream = {
  link: expect.stringMatching(/^<\?stream=[\w-]{21}>; rel="stream"$/),
  text: expect.stringMatching(/Counted/)
}
const lastText = expect.stringMatching(/"text":"Waited"\}\]\},"jsonrpc":"2\.0","id":1\}\n\n$/)
const CAME: Record<string, unknown> = {
  prints: expect.stringMatching(/^HTTP\/1\.1 200 OK\r\n/),
  serves: { ...stream, isFound: true },
  mounts: stream,
  inspects: '<title>Inspector: express-mcp-streams</title>',
  'mounts twice': stream,
  'reads a cookie': stream,
  'ends like Nest': { text: lastText, signal: 'SIGTERM' },
  'ends like Fastify': ['streams', 'call'],
  'has no eventStore': 'Counted',
  resumes: lastText,
  disconnects: expect.stringMatching(/"text":"a row"/),
  'opens resources': {
    size: 100_000,
    refused: ['not-found', 'not-streamable', 'retries-exhausted']
  },
  'hands out a link': {
    type: 'resource_link',
    name: 'Invoice 7.pdf',
    mimeType: 'application/pdf',
    origin: 'https://mcp.example',
    size: 100_000,
    disposition: 'attachment; filename="Invoice 7.pdf"'
  },
  reports: ['The first page', 'The last page'],
  'finds a link': ['http://a/mcp?stream=s', true],
  'serves a socket': 'snippets',
  'counts failures': expect.any(String)
}

describe('what a snippet declares', () => {
  it.each(Object.entries(CAME))('%s as its page says', (name, expected) => {
    const came = outcomes.filter(outcome => name in outcome.came)
    expect(came.length).toBeGreaterThan(0)
    for (const { file, line, came: all } of came)
      expect([file, line, all[name]]).toEqual([file, line, expected])
  })

  it('has no outcome that nobody looks at', () => {
    for (const { came } of outcomes)
      expect(Object.keys(CAME)).toEqual(expect.arrayContaining(Object.keys(came)))
  })

  it('counts a failure by its reason', () => {
    expect(outcomes.flatMap(({ came }) => came['counts failures'] ?? [])).toContainEqual(
      expect.stringContaining('mcp_streams_failures_total{reason="no-response"} 1')
    )
  })
})

describe('the check in the README', () => {
  it('sees the link, and events with ids', () => {
    const stdout = outcomes[2]!.came['prints']
    expect(stdout).toMatch(/^link: <\?stream=[\w-]{21}>; rel="stream"\r$/im)
    expect(stdout).toMatch(/^id: [\w-]{21}\.r1\.1$/m)
    expect(stdout).toContain('Counted to three')
  })
})
