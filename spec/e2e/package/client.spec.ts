// The client door as it is delivered: small, and free of Node.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { build } from 'esbuild'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** What an application pays for who uses nothing else of the door. */
async function gzipped(name: string): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents: `export { ${name} } from './lib/client/index.ts'`, resolveDir: root },
    bundle: true,
    minify: true,
    target: 'es2022',
    format: 'esm',
    write: false,
    logLevel: 'silent'
  })
  return gzipSync(outputFiles[0]!.contents, { level: 9 }).length
}

describe('the client door, minified and gzipped', () => {
  // Of it, 4.4 KB are for tasks, and 0.3 KB for `Request` objects.
  it('is under 10.75 KB for resumableFetch', async () => {
    expect(await gzipped('resumableFetch')).toBeLessThan(11_008)
  })

  it('is under 6,000 bytes for streamResource', async () => {
    expect(await gzipped('streamResource')).toBeLessThan(6000)
  })

  // With the least time between two wires, and a timer that knows of sleep.
  it('is under 4,352 bytes for reconnectingTransport', async () => {
    expect(await gzipped('reconnectingTransport')).toBeLessThan(4352)
  })
})

/** A built file and all that it imports. */
function withImports(file: string, seen = new Map<string, string>()): Map<string, string> {
  if (seen.has(file)) return seen
  const text = readFileSync(file, 'utf8')
  seen.set(file, text)
  for (const [, name = ''] of text.matchAll(
    /(?:from|import|require\()\s*["'](\.{1,2}\/[^"']+)["']/g
  ))
    withImports(join(dirname(file), name), seen)
  return seen
}

describe.each(['index.js', 'index.cjs'])(
  'the built client door, dist/client/%s, with all that it imports',
  name => {
    let texts: string[]

    beforeAll(() => {
      const { status } = spawnSync(process.execPath, ['.config/ensure-dist.js'], { cwd: root })
      expect(status).toBe(0)
      // Comments may speak of what the code must not use.
      texts = [...withImports(join(root, 'dist/client', name)).values()].map(text =>
        text.replace(/^\s*(?:\/\/|\/?\*).*$/gm, '')
      )
    })

    it('imports nothing from outside', () => {
      for (const text of texts) {
        expect(text).not.toMatch(/node:/)
        expect(text.match(/(?:from|import|require\()\s*["'](?!\.)[^"']+["']/g)).toBeNull()
      }
    })

    it('uses no global of Node', () => {
      for (const text of texts) {
        expect(text).not.toMatch(/\b(?:Buffer|process|setImmediate|__dirname|global)\b/)
      }
    })
  }
)
