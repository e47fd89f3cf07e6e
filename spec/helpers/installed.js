// Packages that a few specs alone need, and that are too much for everybody who works on the
// project: npm installs each group of packages.json into a folder of its own, once. Called as a
// program, all of them.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const fileOf = path => fileURLToPath(new URL(path, import.meta.url))
const CACHE = fileOf('../../node_modules/.cache/specs/')
/** Milliseconds; some bring programs of 100 MB. */
const PATIENCE = 300_000

const groups = JSON.parse(readFileSync(fileOf('packages.json'), 'utf8'))

/**
 * The folder that has the packages of a group in its `node_modules`; `undefined`: they cannot be
 * had, as without a network, which is said by name.
 *
 * @param {string} name of the group
 * @returns {string | undefined}
 */
export function installed(name) {
  const packages = groups[name]
  const folder = join(CACHE, name)
  const manifest = JSON.stringify({ private: true, dependencies: packages })
  const done = join(folder, 'installed.json')
  if (existsSync(done) && readFileSync(done, 'utf8') === manifest) return folder
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
  writeFileSync(done, manifest)
  return folder
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const name of Object.keys(groups)) installed(name)
