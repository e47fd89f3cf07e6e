// The example with files as a newcomer runs it, and its command line against a server of its own.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bytesOf } from '../../features/client/resource-server.js'
import { createCutProxy, type CutBy } from '../../helpers/cut-proxy.js'
import { closeLater } from '../../helpers/listen.js'
import { environment, root, type Run, runExample } from './run-example.js'

const run = (file: string, ...args: string[]): Promise<Run> => runExample(`files/${file}`, { args })

const count = (text: string, pattern: RegExp) => text.match(pattern)?.length ?? 0

beforeAll(() => void execFileSync(process.execPath, ['.config/ensure-dist.js'], { cwd: root }))
describe('the example', () => {
  it('brings files over bad wires in all three modes, byte for byte, and ends by itself', async () => {
    const { code, stdout, stderr } = await run('index.js', '--size', '2')
    expect(stderr).toBe('')
    expect(stdout.match(/^\w+$/gm)).toEqual(['direct', 'redirect', 'download'])
    expect(count(stdout, /^ +2097152 {2}stream {2}files:\/\/\/reports\/2026%20Q1\.pdf$/gm)).toBe(3)
    expect(count(stdout, /^ {2}✔ streamed: 2097152 bytes, the same$/gm)).toBe(3)
    expect(count(stdout, /^ {2}✔ read: 25 bytes, the same$/gm)).toBe(3)
    expect(count(stdout, /^ {2}✔ with a limit of 2097151 bytes: .*too large/gm)).toBe(3)
    expect(count(stdout, /^ {2}↻ (?:error|end|idle): goes on at byte \d+$/gm)).toBe(9)
    expect(stdout).not.toContain('✘')
    expect(code).toBe(0)
  })
})

/** A module that spoils one byte of each large body that a client gets. */
const spoiling = `
  const { fetch } = globalThis
  globalThis.fetch = async (...args) => {
    const response = await fetch(...args)
    if (response.headers.get('content-type') !== 'application/pdf') return response
    const spoil = new TransformStream({ transform: (chunk, to) => (chunk[9] ^= 1, to.enqueue(chunk)) })
    return new Response(response.body.pipeThrough(spoil), response)
  }`

describe('the check of the example', () => {
  it('fails where a byte is another', async () => {
    const { code, stdout } = await runExample('files/index.js', {
      args: ['--size', '0.1'],
      preload: spoiling
    })
    expect(count(stdout, /✘ streamed: 104858 bytes, OTHERS/g)).toBe(3)
    expect(code).toBe(1)
  })
})

describe('the command line', () => {
  const BYTES = bytesOf(500_000)
  const URI = 'files:///sub/some%20report.pdf'

  /**
   * A folder that is served, by the example's own server, through a proxy; and another to save to.
   */
  async function serve(mode = 'direct') {
    const temporary = await mkdtemp(join(tmpdir(), 'files-spec-'))
    closeLater(() => rm(temporary, { recursive: true }))
    const [folder, to] = [join(temporary, 'served'), join(temporary, 'saved')]
    await mkdir(join(folder, 'sub'), { recursive: true })
    await mkdir(to)
    await writeFile(join(folder, 'sub/some report.pdf'), BYTES)
    await writeFile(join(folder, 'note.txt'), 'a note')
    const server = spawn(
      process.execPath,
      ['examples/files/server.js', folder, '--port', '0', '--mode', mode],
      {
        cwd: root,
        env: environment,
        stdio: ['ignore', 'pipe', 'inherit']
      }
    )
    const exited = once(server, 'exit')
    closeLater(() => {
      server.kill()
      return exited
    })
    const [line] = (await once(server.stdout, 'data')) as [Buffer]
    const proxy = await createCutProxy({
      target: Number(/127\.0\.0\.1:(\d+)/.exec(String(line))![1])
    })
    return { url: `${proxy.url}/mcp`, direct: `http://127.0.0.1:${proxy.target}/mcp`, to, proxy }
  }

  it('lists what is there, and what is streamed', async () => {
    const { url } = await serve()
    expect(await run('cli.js', 'list', url)).toEqual({
      code: 0,
      signal: null,
      stderr: '',
      stdout: `           6  read    files:///note.txt\n      500000  stream  ${URI}\n`
    })
  })

  it('brings a file through every kind of cut', async () => {
    const { url, to, proxy } = await serve()
    const kinds: CutBy[] = ['fin', 'rst', 'fin']
    proxy.plan = ({ message }) => {
      const by = message?.method === 'resources/stream' ? kinds.shift() : undefined
      return by && { by, afterBytes: 100_000 }
    }
    const { code, stdout } = await run('cli.js', 'get', url, URI, '--to', to)
    expect(stdout.match(/goes on at byte \d+/g)).toHaveLength(3)
    expect(stdout).toContain(`streamed: ${join(to, 'some report.pdf')}, 500000 bytes`)
    expect(code).toBe(0)
    expect((await readFile(join(to, 'some report.pdf'))).equals(BYTES)).toBe(true)
    expect(await readdir(to)).toHaveLength(1)
  })

  it.each(['redirect', 'download'])('brings a file from a server in mode %s', async mode => {
    const { direct, to } = await serve(mode)
    const { code, stdout } = await run('cli.js', 'get', direct, URI, '--to', to)
    expect(stdout).toBe(`streamed: ${join(to, 'some report.pdf')}, 500000 bytes\n`)
    expect(code).toBe(0)
    expect((await readFile(join(to, 'some report.pdf'))).equals(BYTES)).toBe(true)
  })

  it('reads what is not streamed', async () => {
    const { url, to } = await serve()
    const { stdout } = await run('cli.js', 'get', url, 'files:///note.txt', '--to', to)
    expect(stdout).toBe(`read: ${join(to, 'note.txt')}, 6 bytes\n`)
    expect(await readFile(join(to, 'note.txt'), 'utf8')).toBe('a note')
  })

  it('keeps to a limit, and to what there is', async () => {
    const { url, to } = await serve()
    const runs = await Promise.all([
      run('cli.js', 'get', url, URI, '--to', to, '--limit', '499999'),
      run('cli.js', 'get', url, 'files:///note.txt', '--to', to, '--limit', '5'),
      run('cli.js', 'get', url, 'files:///missing', '--to', to)
    ])
    expect(runs.map(({ code }) => code)).toEqual([1, 1, 1])
    expect(runs.map(({ stderr }) => stderr)).toEqual([
      expect.stringContaining('too large'),
      expect.stringContaining('more than 5'),
      expect.stringContaining('not found')
    ])
    expect(await readdir(to)).toEqual([])
  })
})
