// Runs a script of package.json beside others: what it prints comes when it is done.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setPriority } from 'node:os'

const isWindows = process.platform === 'win32'

/** Resolves with whether it succeeds. `priority`: as of `os.setPriority`. */
export async function check(script, priority = 0) {
  const child = spawn('npm', ['run', '--silent', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
    shell: isWindows
  })
  // What npm starts inherits it.
  if (priority !== 0) setPriority(child.pid, priority)
  const output = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', part => output.push(part))
  const [code] = await once(child, 'close')
  process.stderr.write(Buffer.concat(output))
  if (code !== 0) console.error(`npm run ${script} failed.`)
  return code === 0
}

/** The same in the foreground: what it prints comes at once. */
export async function foreground(script, args) {
  const child = spawn('npm', ['run', '--silent', script, '--', ...args], {
    stdio: 'inherit',
    shell: isWindows
  })
  const [code] = await once(child, 'close')
  return code === 0
}
