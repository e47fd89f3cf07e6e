// The README says what is so: its snippets compile, its tables name what exists, its exchange is
// what happens on the wire.

import { afterEach, describe, expect, it } from '@jest/globals'
import { existsSync, readFileSync } from 'node:fs'
import { parseClientOptions } from '../../../lib/client/options.js'
import { parseResourceOptions } from '../../../lib/client/stream-resource-options.js'
import { faultMessage, type StreamFault } from '../../../lib/protocol/errors.js'
import { resourceSettings } from '../../../lib/resources/resource-options.js'
import { parseOptions } from '../../../lib/settings.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { closeAll } from '../../helpers/listen.js'
import { get, headersFor, initialize, post } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import { Compiler, plain } from './compiler.js'
import { codesIn, Markdown, root, tablesOf, type Table } from './markdown.js'

afterEach(closeAll)

const SERVER = 'lib/index.ts'
const CLIENT = 'lib/client/index.ts'

const readme = new Markdown('README.md')
const changelog = new Markdown('CHANGELOG.md')
const snippets = readme.fences.filter(({ language }) =>
  /^(?:ts|js|typescript|javascript)$/.test(language)
)
const compiler = new Compiler(snippets, [SERVER, CLIENT])

const tableWith = (section: string, column: string): Table =>
  tablesOf(readme.section(section)).find(({ columns }) => columns[0] === column)!

const itemWith = (section: string, text: string): string =>
  readme
    .section(section)
    .split('\n- ')
    .find(item => item.includes(text))!

describe('a snippet', () => {
  it.each(snippets.map(snippet => [snippet.line, snippet] as const))(
    'at line %d compiles',
    (_line, snippet) => {
      expect(compiler.faults(snippet)).toEqual([])
    }
  )

  it('that is wrong does not compile', () => {
    const code =
      "import { mcpStreams } from 'express-mcp-streams'\n\nmcpStreams({ retries: 3 })\napp.use(stream)\n"
    const wrong = { language: 'ts', code, line: 1000 }
    const faults = new Compiler([wrong], []).faults(wrong)
    expect(faults).toEqual([
      expect.stringMatching(/^README\.md:1002: .*'retries' does not exist/),
      expect.stringMatching(/^README\.md:1003: .*'stream'/)
    ])
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
  ['mcpStreams', SERVER, 'McpStreamsOptions', parseOptions(), 'Options'],
  [
    'resources',
    SERVER,
    'ResourcesOptions',
    resourceSettings({ open: () => undefined }),
    'Resources'
  ],
  ['resumableFetch', CLIENT, 'ResumableFetchOptions', parseClientOptions(), '`resumableFetch`'],
  ['streamResource', CLIENT, 'StreamResourceOptions', parseResourceOptions(), '`streamResource`']
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
    const [code] = /^`.*`$/.test(cell!) ? codesIn(cell!) : []
    const value = settings.get(option!.slice(1, -1))
    if (code === undefined) expect(['function', 'undefined']).toContain(typeof value)
    else
      expect(value instanceof Set ? [...value] : value).toEqual(new Function(`return (${code})`)())
  })

  it('says what each one means', () => {
    for (const [, , , meaning] of rows) expect(meaning).toMatch(/^[A-Z].*\.$/)
  })
})

describe('the words', () => {
  it('are all reasons of an error, each with where it stands', () => {
    const { rows } = tableWith('Statuses and errors', 'Reason')
    expect(rows.map(([reason]) => reason!.slice(1, -1)).sort()).toEqual(
      compiler.words(SERVER, 'StreamFault')
    )
    for (const [reason, where] of rows) {
      expect(where).toMatch(/^(?:event(?:, \d{3})?|\d{3}|endpoint)$/)
      expect(faultMessage(reason!.slice(1, -1) as StreamFault)).toEqual(expect.any(String))
    }
  })

  it('are all errors of the client', () => {
    const item = itemWith('`resumableFetch`', '`ResumptionError`')
    const codes = codesIn(item.slice(item.indexOf('one of')))
    expect(codes.sort()).toEqual(compiler.words(CLIENT, 'ResumptionErrorCode'))
  })

  it('are all errors of a resource', () => {
    const item = itemWith('`streamResource`', '`ResourceStreamError`: ')
    const codes = codesIn(item.slice(item.indexOf('one of')))
    expect(codes.sort()).toEqual(compiler.words(CLIENT, 'ResourceStreamErrorCode'))
  })

  it('are all channels, and what their messages hold', () => {
    const item = itemWith('Observing', '`diagnostics_channel`')
    expect(codesIn(item)).toEqual(expect.arrayContaining(compiler.words(SERVER, 'DiagnosticName')))
    expect(codesIn(item)).toContain(
      `{ ${[...compiler.members(SERVER, 'StreamMessage').keys()].join(', ')} }`
    )
  })

  it('are all figures of stats()', () => {
    const item = itemWith('Observing', '`streams.stats()`')
    expect(codesIn(item)).toEqual(
      expect.arrayContaining([...compiler.members(SERVER, 'McpStreamsStats').keys()])
    )
  })

  it('are all states of a stream, and all that currentStream() has', () => {
    const codes = codesIn(readme.section('Inside a handler'))
    expect(codes).toEqual(expect.arrayContaining(compiler.words(SERVER, 'StreamState')))
    for (const member of ['id', 'state', 'signal', 'disconnect({ retry })'])
      expect(codes).toContain(member)
  })
})

describe('the exchange', () => {
  const [first, second, third] = readme.fences
    .filter(({ language }) => language === 'http')
    .map(({ code }) => code.replace(/ +# .*$/gm, ''))
  const [, id] = /stream=([\w-]{21})>/.exec(first!)!

  /** Head lines and body of the response in a fence. */
  function answerIn(fence: string): { head: string[]; body: string } {
    const [head, ...blocks] = fence.slice(fence.indexOf('HTTP/1.1 200')).trim().split('\n\n')
    return { head: head!.split('\n').slice(1), body: `${blocks.join('\n\n')}\n\n` }
  }

  function expectAsWritten(
    response: OpenStream,
    { head, body }: { head: string[]; body: string },
    actualId = streamId(response)
  ): void {
    for (const line of head) {
      const [, name, value] = /^([^:]+): (.*)$/.exec(line)!
      expect([name, String(response.headers[name!.toLowerCase()]).replace(actualId, id!)]).toEqual([
        name,
        value
      ])
    }
    expect(response.text.replaceAll(actualId, id!)).toBe(body)
  }

  it('is what happens on the wire', async () => {
    const dataOf = (fence: string): unknown => JSON.parse(/^data: (\{.*)$/m.exec(fence)![1]!)
    const endpoint = rawEndpoint(({ emit }) => emit(dataOf(first!)))
    const { url } = await serve(endpoint)
    const call = JSON.parse(/^\{.*$/m.exec(first!)![0])
    const headers = headersFor({ version: /^MCP-Protocol-Version: (.*)$/m.exec(first!)![1] })

    const cut = await post(url, call, headers)
    await cut.take(2)
    cut.destroy()
    expectAsWritten(cut, answerIn(first!))

    const lastEventId = /^Last-Event-ID: \S+(\.\d+)$/m.exec(second!)![1]!
    const resumed = await get(streamUrl(cut, url), {
      ...headers,
      'last-event-id': streamId(cut) + lastEventId
    })
    endpoint.calls[0]!.emit(dataOf(second!))
    endpoint.calls[0]!.res.end()
    await resumed.ended
    expectAsWritten(resumed, answerIn(second!))
  })

  it('of a hand-off is, too', async () => {
    const [asking, posting] = third!.split('\n\nPOST ')
    const answer = JSON.parse(/^\[\{.*$/m.exec(posting!)![0])
    const question = { jsonrpc: '2.0', id: answer[0].id, method: 'elicitation/create', params: {} }
    const answers: unknown[] = []
    const endpoint = rawEndpoint(({ message, res, emit }) => {
      if (message.method === 'tools/call') return emit(question)
      answers.push(message)
      res.writeHead(202).end()
      endpoint.calls[0]!.emit(JSON.parse(/^data: (\{.*)$/m.exec(posting!)![1]!))
      return endpoint.calls[0]!.res.end()
    })
    const { url } = await serve(endpoint)
    const announced = headersFor({ version: '2025-11-25', prefer: 'rel=stream' })
    const call = await post(url, JSON.parse(/^\{.*$/m.exec(first!)![0]), announced)
    await call.ended

    const lastEventId = /^Last-Event-ID: (\S+)$/m.exec(asking!)![1]!
    expect(call.blocks.at(-1)!.id).toBe(lastEventId.replace(id!, streamId(call)))
    const resumed = await get(streamUrl(call, url), {
      ...announced,
      'last-event-id': call.blocks.at(-1)!.id!
    })
    expect(`HTTP/1.1 ${resumed.status} No Content`).toBe(asking!.split('\n').at(-1))

    const next = await post(streamUrl(call, url), answer, announced)
    await next.ended
    expectAsWritten(next, answerIn(posting!), streamId(call))
    expect(answers).toEqual(answer)
  })
})

describe('the exchange about a resource', () => {
  it('is what happens on the wire', async () => {
    const fence = readme.fences.find(
      ({ language, code }) => language === 'http' && code.includes('resources/stream')
    )!
    const [question, call, head, body] = fence.code
      .replace(/ +# .*$/gm, '')
      .trim()
      .split('\n\n')
    const headersIn = (text: string) =>
      Object.fromEntries(
        [...text.matchAll(/^([\w-]+): (.*)$/gm)].map(([, name, value]) => [
          name!.toLowerCase(),
          value!
        ])
      )
    const endpoint = rawEndpoint(call => call.result(), { session: '1f0c' })
    const { url } = await serve(endpoint, {
      resources: { open: () => ({ body: Buffer.from('hello world') }) }
    })
    await (
      await post(url, initialize('2025-11-25', { resourceStreaming: {} }))
    ).ended
    const response = await post(url, JSON.parse(call!), headersIn(question!))
    await response.ended
    const { 'content-type': type, ...expected } = headersIn(head!)
    expect(`HTTP/1.1 ${response.status} ${response.response.statusMessage}`).toBe(
      head!.split('\n')[0]
    )
    expect(response.headers).toMatchObject({ 'content-type': type, ...expected })
    expect(response.text).toBe(body)
  })
})

describe('a link', () => {
  it.each(readme.links.filter(link => !link.includes(':')))('to %s leads somewhere', link => {
    if (link.startsWith('#')) expect(readme.anchors).toContain(link.slice(1))
    else expect(existsSync(root + link)).toBe(true)
  })
})

describe('the changelog', () => {
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
