// Lint, types and build at once: each takes one core for most of its time. What they print comes
// when all are done, one after the other.
import { spawn } from 'node:child_process'

const run = script =>
  new Promise(resolve => {
    const child = spawn('npm', ['run', '--silent', script], {
      stdio: ['ignore', 'pipe', 'pipe'],
      shell: process.platform === 'win32'
    })
    const output = []
    child.stdout.on('data', chunk => output.push(chunk))
    child.stderr.on('data', chunk => output.push(chunk))
    child.on('close', code => resolve({ script, code, output: Buffer.concat(output) }))
  })

for (const { script, code, output } of await Promise.all(['lint', 'types', 'build'].map(run))) {
  process.stderr.write(output)
  if (code === 0) continue
  console.error(`npm run ${script} failed.`)
  process.exitCode = 1
}
