// The commands of the guide, and its Dockerfile, as they are printed.

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { manifest } from '../package/project.js'
import { page, root } from '../readme/markdown.js'

const guide = page('examples/proxy/README.md')
const commands = guide.fences.flatMap(({ code }) => (code.startsWith('npx ') ? [code] : []))
const dockerfile = readFileSync(`${root}examples/proxy/Dockerfile`, 'utf8')
const listIn = (step: string): string[] =>
  JSON.parse(new RegExp(`^${step} (.+)$`, 'm').exec(dockerfile)![1]!) as string[]

let folder: string

beforeAll(() => {
  execFileSync(process.execPath, ['.config/ensure-dist.js'], { cwd: root })
  folder = mkdtempSync(join(tmpdir(), 'guide-'))
  mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true })
  symlinkSync(root, join(folder, 'node_modules/express-mcp-streams'))
  symlinkSync(join(root, manifest.bin), join(folder, 'node_modules/.bin/express-mcp-streams'))
})

afterAll(() => rmSync(folder, { recursive: true }))

/** Runs it on a free port, for as long as `look` takes. */
async function running(
  [program, ...args]: string[],
  look: (line: string) => unknown
): Promise<unknown[]> {
  const child = spawn(program!, args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  try {
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    await look(String(line))
  } finally {
    child.kill('SIGTERM')
  }
  return exited
}

describe('the guide', () => {
  it.each(commands)('has a command that runs: %s', async command => {
    // `exec`, so that the signal comes to the command and not to the shell.
    const text = `exec ${command.trim().replace('npx ', './node_modules/.bin/')} --port 0`
    const exited = await running(['sh', '-c', text], line => {
      expect(line).toMatch(
        /^http:\/\/127\.0\.0\.1:\d+\/mcp is in front of http:\/\/127\.0\.0\.1:8000\/mcp\n$/
      )
    })
    expect(exited).toEqual([0, null])
  })

  it('has a Dockerfile whose program runs, is healthy and ends by SIGTERM', async () => {
    expect(dockerfile.trim().split('\n')).toHaveLength(10)
    expect(dockerfile).toContain(`COPY express-mcp-streams-${manifest.version}.tgz .`)
    const started = [...listIn('ENTRYPOINT'), 'http://127.0.0.1:8000/mcp', '--port', '0']
    const exited = await running(started, async line => {
      const [, port] = /^http:\/\/0\.0\.0\.0:(\d+)\/mcp /.exec(line)!
      const [program, ...args] = listIn('HEALTHCHECK CMD').map(arg => arg.replace('3001', port!))
      await promisify(execFile)(program!, args)
    })
    expect(exited).toEqual([0, null])
  })
})
