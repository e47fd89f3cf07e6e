// Packages that one spec alone needs, and that are too much for everybody who works on the project:
// npm installs them into a folder of their own, once.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const CACHE = fileURLToPath(new URL('../../node_modules/.cache/specs/', import.meta.url))
/** Milliseconds; some bring programs of 100 MB. */
const PATIENCE = 300_000

/**
 * The folder that has these packages in its `node_modules`; `undefined`: they cannot be had, as
 * without a network, which is said by name.
 *
 * @param name of the folder.
 * @param packages with the versions that are wanted.
 */
export function installed(name: string, packages: Record<string, string>): string | undefined {
  const folder = join(CACHE, name)
  const manifest = JSON.stringify({ private: true, dependencies: packages })
  const done = join(folder, `${Buffer.from(manifest).toString('base64url').slice(-60)}.done`)
  if (existsSync(done)) return folder
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), manifest)
  try {
    execFileSync('npm', ['install', '--no-audit', '--no-fund', '--no-package-lock'], {
      cwd: folder,
      timeout: PATIENCE,
      stdio: 'pipe'
    })
  } catch {
    process.stderr.write(`SKIPPED: npm cannot install ${Object.keys(packages).join(', ')}.\n`)
    return undefined
  }
  writeFileSync(done, '')
  return folder
}
