// What follows an installation. Whoever works on the project begins with `npm ci`, and gets what the
// specs and checks need too, which is five times as much. All others get what a build needs, and a
// build: `npm install` of the repository's URL, of a clone, or in it.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

function npm(...args) {
  const { status } = spawnSync('npm', [...args, '--ignore-scripts'], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    shell: process.platform === 'win32'
  })
  if (status !== 0) process.exit(status ?? 1)
}

if (process.env.npm_command === 'ci') npm('ci', '--workspaces', '--include-workspace-root')
else {
  // npm installs of a folder that is linked to what it needs to run, and no more.
  if (!existsSync(`${root}node_modules/tsup`)) npm('install', '--include=dev', '--no-save')
  await import('./ensure-dist.js')
}
