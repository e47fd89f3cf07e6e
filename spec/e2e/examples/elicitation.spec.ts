// The elicitation example as its reader runs it, and its check: what runs, asks or answers twice
// must fail the run.

import { describe, expect, it } from '@jest/globals'
import { type Run, runExample, type RunOptions } from './run-example.js'

const run = (options: RunOptions = {}): Promise<Run> =>
  runExample('elicitation/index.js', { args: ['--yes'], ...options })

/** What happened on the wire, without what differs from run to run. */
const linesOf = (stdout: string, kind: RegExp) =>
  stdout
    .split('\n')
    .filter(line => kind.test(line))
    .map(line =>
      line
        .trim()
        .replace(/=[\w-]{4}…/g, '=ID')
        .replace(/ +/g, ' ')
    )

const verdict = (stdout: string) => stdout.trimEnd().split('\n').at(-1)

const SURVIVED =
  '✔ 3 cuts; the tool ran once, asked twice, was answered twice; the human was asked twice'

describe('the elicitation example', () => {
  it('books in two turns, with nothing held in between, and ends by itself', async () => {
    const { code, stdout, stderr } = await run()
    expect(stderr).toBe('')
    expect(linesOf(stdout, /^ {2}✂/)).toEqual([
      '✂ FIN in the middle of the first question (cut 1 of 3)',
      '✂ RST on the way of the first answer (cut 2 of 3)',
      '✂ RST behind the second answer: has it arrived? (cut 3 of 3)'
    ])
    expect(linesOf(stdout, /^ {2}(GET|POST)/)).toEqual([
      'POST /mcp tools/call 200, link: ?stream=ID',
      'GET /mcp?stream=ID 200, link: ?stream=ID',
      'GET /mcp?stream=ID 204: the server waits for you',
      'POST /mcp?stream=ID [1 answer] lost',
      'POST /mcp?stream=ID [1 answer] 200, link: ?stream=ID~1',
      'GET /mcp?stream=ID~1 204: the server waits for you',
      'POST /mcp?stream=ID~1 [1 answer] lost',
      'POST /mcp?stream=ID~1 [1 answer] 200, link: ?stream=ID~2'
    ])
    expect(stdout.match(/While you thought: .*/g)).toEqual(
      Array(2).fill('While you thought: calls waiting: 1, sockets held: 0')
    )
    expect(stdout).toContain('\nBooked: 3 nights in Lisbon, 240 €\n')
    expect(verdict(stdout)).toBe(SURVIVED)
    expect(code).toBe(0)
  })

  it('books what is typed, and asks again for what it cannot read', async () => {
    const typed = await run({ args: [], input: 'Oslo\nmany\n2\nperhaps\nyes\n' })
    expect(typed).toMatchObject({ code: 0, stderr: '' })
    expect(typed.stdout.match(/For how many nights\?/g)).toHaveLength(2)
    expect(typed.stdout.match(/Book it\?/g)).toHaveLength(2)
    expect(typed.stdout).toContain('\nBooked: 2 nights in Oslo, 160 €\n')
    expect(verdict(typed.stdout)).toBe(SURVIVED)
  })

  it('fails where nobody is there, or where an answer reaches the server twice', async () => {
    // Each answer goes to the endpoint as well, before it goes where it should.
    const twice = `{
      const { fetch } = globalThis
      globalThis.fetch = async (url, init) => {
        const isAnswer = init?.method === 'POST' && String(url).includes('stream=')
        if (isAnswer) {
          const headers = new Headers(init.headers)
          headers.set('accept', 'application/json, text/event-stream')
          const [body] = JSON.parse(init.body)
          await fetch(String(url).split('?')[0], { ...init, headers, body: JSON.stringify({ ...body, id: 'other' }) })
        }
        return fetch(url, init)
      }
    }`
    const [deserted, doubled] = await Promise.all([run({ args: [] }), run({ preload: twice })])
    expect(deserted!.stdout).toContain(
      '✘ MCP error -32603: No more input: nobody is there to answer. Try `npm run elicitation -- --yes`\n'
    )
    expect(deserted!.code).toBe(1)
    expect(verdict(doubled!.stdout)).toMatch(
      /^✘ 3 cuts; the tool ran once, asked twice, was answered [3-9] times;/
    )
    expect(doubled!.code).toBe(1)
  })

  it('ends at once with Ctrl+C at a prompt, as any program does', async () => {
    // What a terminal has: keys that are read one by one.
    const terminal = `
      for (const stream of [process.stdin, process.stdout]) stream.isTTY = true
      process.stdin.setRawMode = () => undefined
      process.stdout.hasColors = () => false
    `
    const { code, signal, stdout } = await run({ args: [], preload: terminal, input: '\x03' })
    expect({ code, signal }).toEqual({ code: null, signal: 'SIGINT' })
    expect(stdout).not.toContain('✘')
  })
})
