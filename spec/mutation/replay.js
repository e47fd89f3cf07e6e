// node spec/mutation/replay.js <spec path> [--at <commit>]: which mutants of the list do these specs
// kill? Each is made in a copy of the tree, one at a time. With `--at`, `spec` is as it was at that
// commit, and the library as it is here. What they are, and what came of it: README.md.

import { execFileSync, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { at: { type: 'string' } }
})
const [path] = positionals
const list = JSON.parse(fs.readFileSync(new URL('mutants.json', import.meta.url), 'utf8'))
if (!(path in list)) throw new Error(`mutants.json has none for ${path}`)

const tree = fs.mkdtempSync(join(tmpdir(), 'replay-'))
process.on('exit', () => fs.rmSync(tree, { recursive: true, force: true }))
process.on('SIGINT', () => process.exit(130))
for (const name of ['.config', 'lib', 'package.json'])
  fs.cpSync(name, join(tree, name), { recursive: true })
if (values.at === undefined) fs.cpSync('spec', join(tree, 'spec'), { recursive: true })
else
  execFileSync('tar', ['-x', '-C', tree], {
    input: execFileSync('git', ['archive', values.at, 'spec'], { maxBuffer: 1e9 })
  })
fs.symlinkSync(resolve('node_modules'), join(tree, 'node_modules'))

/** Whether the specs pass. A mutant that makes them hang has died, too. */
function pass() {
  const jest = [join('node_modules', 'jest', 'bin', 'jest.js'), '--bail', '--silent', path]
  jest.push('--testTimeout', '20000')
  const flags = ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning']
  const env = { ...process.env, PATIENCE: '15000' }
  const spawned = { cwd: tree, env, stdio: 'ignore', timeout: 150_000, killSignal: 'SIGKILL' }
  return spawnSync(process.execPath, [...flags, ...jest], spawned).status === 0
}

if (!pass()) throw new Error(`${path} fails as it is`)
let killed = 0
for (const [file, from, into] of list[path]) {
  const original = fs.readFileSync(join(tree, file), 'utf8')
  if (original.split(from).length !== 2) throw new Error(`${file} has not one ${from}`)
  fs.writeFileSync(
    join(tree, file),
    original.replace(from, () => into)
  )
  const dies = !pass()
  if (dies) killed++
  console.log(`${dies ? 'dies    ' : 'SURVIVES'} ${file}: ${from} -> ${into || 'nothing'}`)
  fs.writeFileSync(join(tree, file), original)
}
console.log(`${killed} of ${list[path].length} die`)
