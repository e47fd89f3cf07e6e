// Builds dist/ when it is missing or older than what it is made from, and does nothing otherwise.
import { spawnSync } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

const changedAt = path => statSync(root + path, { throwIfNoEntry: false })?.mtimeMs ?? 0

const sources = () => [
  'package.json',
  'tsconfig.json',
  '.config/node-types.js',
  '.config/page.js',
  '.config/tsup.config.js',
  ...readdirSync(`${root}lib`, { recursive: true }).map(file => `lib/${file}`)
]

// The types are what a build writes last, so an interrupted build counts as missing.
const doors = [
  'index',
  ...[
    'backplane',
    'client',
    'client/node',
    'features/cookie',
    'features/sessions',
    'features/tasks',
    'inspector',
    'redis',
    'resources',
    'wires'
  ].map(door => `${door}/index`)
]
const built = [
  'command/index.js',
  ...doors.flatMap(door => [`${door}.js`, `${door}.cjs`, `${door}.d.cts`])
]
const builtAt = Math.min(...built.map(file => changedAt(`dist/${file}`)))

if (sources().some(path => changedAt(path) > builtAt)) {
  console.error('Building dist, about a minute. This is done once, and again when lib has changed.')
  const build = spawnSync('npm', ['run', '--silent', 'build'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit']
  })
  process.exitCode = build.status ?? 1
}
