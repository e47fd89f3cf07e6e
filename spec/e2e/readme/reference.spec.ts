// The pages say what is so: their snippets compile, and their tables and lists name what exists.

import { describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import {
  tokenFaultMessage,
  type ResumeTokenFault
} from '../../../lib/features/resume-tokens/token-fault.js'
import { parseClientOptions } from '../../../lib/client/options.js'
import { parseResourceOptions } from '../../../lib/client/stream-resource-options.js'
import { type McpStreamsOptions, OPTIONS, parseOptions } from '../../../lib/options/options.js'
import type { Schema } from '../../../lib/options/schema.js'
import { faultMessage, type StreamFault } from '../../../lib/protocol/errors.js'
import { resourceSettings } from '../../../lib/resources/resource-options.js'
import { Compiler, plain } from './compiler.js'
import { codesIn, page, pages, root, tablesOf, type Table } from './markdown.js'

const SERVER = 'lib/index.ts'
const CLIENT = 'lib/client/index.ts'
const REDIS = 'lib/redis/index.ts'
const RESOURCES = 'lib/resources/index.ts'
const INSPECTOR = 'lib/inspector/index.ts'

const CLIENT_PAGE = page('lib/client/README.md')
const OPERATIONS = page('examples/operations/README.md')

const snippets = pages.flatMap(({ fences }) => fences.filter(({ language }) => language === 'ts'))
const wrong = {
  file: 'wrong.md',
  language: 'ts',
  code: "import { mcpStreams } from 'express-mcp-streams'\n\nmcpStreams({ retries: 3 })\napp.use(stream)\n",
  line: 1000
}
const compiler = new Compiler([...snippets, wrong], [SERVER, CLIENT, REDIS, RESOURCES, INSPECTOR])

const tableWith = (prose: string, column: string): Table =>
  tablesOf(prose).find(({ columns }) => columns[0] === column)!

const itemWith = (prose: string, text: string): string =>
  prose.split('\n- ').find(item => item.includes(text))!

describe('a snippet', () => {
  it.each(snippets.map(snippet => [snippet.file, snippet.line, snippet] as const))(
    'of %s at line %d compiles',
    (_file, _line, snippet) => {
      expect(compiler.faults(snippet)).toEqual([])
    }
  )

  it('that is wrong does not compile', () => {
    expect(compiler.faults(wrong)).toEqual([
      expect.stringMatching(/^wrong\.md:1002: .*'retries' does not exist/),
      expect.stringMatching(/^wrong\.md:1003: .*'stream'/)
    ])
  })

  it.each(pages)('of $file is TypeScript, where it is a program', ({ fences }) => {
    expect(fences.map(({ language }) => language)).not.toContain('js')
  })
})

describe('the snippet for /metrics', () => {
  it('is the code that its spec runs', () => {
    const spec = readFileSync(`${root}spec/features/observe/metrics.spec.ts`, 'utf8')
    const [, lines] = /#region README\n([^]*?) *\/\/ #endregion/.exec(spec)!
    const { code } = snippets.find(({ code }) => code.includes('prom-client'))!
    expect(code.slice(code.indexOf('\n\n') + 2)).toBe(lines!.replace(/^ {2}/gm, ''))
  })
})

describe.each([
  ['mcpStreams', SERVER, 'McpStreamsOptions', parseOptions(), page('lib/options.md').whole],
  [
    'resources',
    RESOURCES,
    'ResourcesOptions',
    resourceSettings({ open: () => undefined }),
    page('examples/files/README.md').whole
  ],
  [
    'redisBackplane',
    REDIS,
    'RedisBackplaneOptions',
    { lease: 6000, prefix: 'mcps:', sessions: 'forward' },
    page('examples/cluster/README.md').whole
  ],
  ['inspector', INSPECTOR, 'InspectorOptions', { actions: false }, OPERATIONS.section('Inspector')],
  [
    'resumableFetch',
    CLIENT,
    'ResumableFetchOptions',
    parseClientOptions(),
    CLIENT_PAGE.section('`resumableFetch`')
  ],
  [
    'streamResource',
    CLIENT,
    'StreamResourceOptions',
    parseResourceOptions(),
    CLIENT_PAGE.section('`streamResource`')
  ]
])('the table of options of %s', (_function, door, name, defaults: object, section) => {
  const { columns, rows } = tableWith(section, 'Option')
  const members = compiler.members(door, name)
  const settings = new Map(Object.entries(defaults))

  it('has the options that exist, in their order', () => {
    expect(columns).toEqual(['Option', 'Type', 'Default', 'Meaning'])
    expect(rows.map(([option]) => option)).toEqual(
      [...members.keys()].map(member => `\`${member}\``)
    )
  })

  it.each(rows)('has the type of %s', (option, type) => {
    const declared = members.get(option!.slice(1, -1))!
    expect([declared, compiler.alias(door, declared)]).toContain(plain(type!.slice(1, -1)))
  })

  it.each(rows)('has the default of %s', (option, _type, cell) => {
    const [code] = /^`.*`(?: \w+)?$/.test(cell!) ? codesIn(cell!) : []
    const value = settings.get(option!.slice(1, -1))
    if (code === undefined) expect(['function', 'undefined']).toContain(typeof value)
    else
      expect(value instanceof Set ? [...value] : value).toEqual(new Function(`return (${code})`)())
  })

  it('says what each one means', () => {
    for (const [, , , meaning] of rows) expect(meaning).toMatch(/^[A-Z].*\.$/)
  })
})

describe('the table of options of mcpStreams', () => {
  const { rows } = tableWith(page('lib/options.md').whole, 'Option')
  const units = { milliseconds: 'ms', seconds: 's', bytes: 'bytes', none: undefined }

  it.each(rows)('has the unit of the default of %s', (option, _type, cell) => {
    const table: Schema<McpStreamsOptions> = OPTIONS
    const { unit: declared = 'none' } = table[option!.slice(1, -1) as keyof McpStreamsOptions]
    const [, , unit] = /^`(.*)`(?: (\w+))?$/.exec(cell!) ?? []
    const hasNumber = /\d/.test(cell!)
    expect(unit).toBe(hasNumber ? units[declared] : undefined)
  })
})

describe('the words', () => {
  it('are all reasons of an error, each with where it stands', () => {
    const { rows } = tableWith(page('lib/routes/README.md').whole, 'Reason')
    expect(rows.map(([reason]) => reason!.slice(1, -1)).sort()).toEqual(
      compiler.words(SERVER, 'StreamFault')
    )
    for (const [reason, where] of rows) {
      expect(where).toMatch(/^(?:(?:event|\d{3})(?:, \d{3})?|endpoint)$/)
      expect(faultMessage(reason!.slice(1, -1) as StreamFault)).toEqual(expect.any(String))
    }
  })

  it('are all errors of the client', () => {
    const item = itemWith(CLIENT_PAGE.section('`resumableFetch`'), '`ResumptionError`')
    const codes = codesIn(item.slice(item.indexOf('one of')))
    expect(codes.sort()).toEqual(compiler.words(CLIENT, 'ResumptionErrorCode'))
  })

  it('are all errors of a resource', () => {
    const item = itemWith(CLIENT_PAGE.section('`streamResource`'), '`ResourceStreamError`: ')
    const codes = codesIn(item.slice(item.indexOf('one of')))
    expect(codes.sort()).toEqual(compiler.words(CLIENT, 'ResourceStreamErrorCode'))
  })

  it('are all channels, and what their messages hold', () => {
    const item = itemWith(OPERATIONS.section('Observing'), '`diagnostics_channel`')
    expect(codesIn(item)).toEqual(expect.arrayContaining(compiler.words(SERVER, 'DiagnosticName')))
    expect(codesIn(item)).toContain(
      `{ ${[...compiler.members(SERVER, 'StreamMessage').keys()].join(', ')} }`
    )
  })

  it('are all figures of stats()', () => {
    const item = itemWith(OPERATIONS.section('Observing'), '`streams.stats()`')
    expect(codesIn(item)).toEqual(
      expect.arrayContaining([...compiler.members(SERVER, 'McpStreamsStats').keys()])
    )
  })

  it('are all states of a stream, and all that currentStream() has', () => {
    const codes = codesIn(page('lib/endpoint/README.md').section('Inside a handler'))
    expect(codes).toEqual(expect.arrayContaining(compiler.words(SERVER, 'StreamState')))
    for (const member of ['id', 'state', 'signal', 'disconnect({ retry })'])
      expect(codes).toContain(member)
  })
})

const rowsOf = (column: string): string[][] =>
  tablesOf(page('examples/report/README.md').whole).find(({ columns }) => columns[0] === column)!
    .rows as string[][]

describe('the page on resume tokens', () => {
  it('names all reasons why a token is refused', () => {
    const reasons = rowsOf('Token').map(([reason]) => reason!.slice(1, -1))
    expect([...reasons].sort()).toEqual(compiler.words(SERVER, 'ResumeTokenFault'))
    for (const reason of reasons)
      expect(tokenFaultMessage(reason as ResumeTokenFault)).toMatch(
        /^Invalid params: The .*[a-z]$|^Invalid params: A /
      )
  })

  it('names all options of callResumable, and their types', () => {
    const declared = [...compiler.members(CLIENT, 'CallResumableOptions')].map(([name, type]) => [
      name,
      plain(type)
    ])
    expect(
      rowsOf('Option').map(([name, type]) => [name!.slice(1, -1), plain(type!.slice(1, -1))])
    ).toEqual(declared)
  })
})
