// Processes, as an orchestrator has them: begun, told to leave, killed.

import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { spawnChild } from './children.js'

const program = fileURLToPath(new URL('instance.js', import.meta.url))

/**
 * Starts an instance, and resolves once it is ready. `isOut` takes it out of the round robin;
 * `begun` counts the calls that it has begun.
 */
export async function startInstance(name, { redis, secret }) {
  const child = spawnChild(process.execPath, [program, name, redis], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, BACKPLANE_SECRET: secret }
  })
  const instance = { name, begun: 0, isOut: false, end, exited: once(child, 'exit') }
  const lines = createInterface({ input: child.stdout })
  instance.port = Number((await Promise.race([once(lines, 'line'), instance.exited]))[0])
  lines.on('line', () => instance.begun++)
  while (child.exitCode === null) {
    const { status } = await fetch(`http://127.0.0.1:${instance.port}/ready`)
    if (status === 200) return instance
    await sleep(20)
  }
  throw new Error(`Instance ${name} has not begun`)

  /** Resolves with its exit code, which a killed one has none of. */
  async function end(signal) {
    instance.isOut = true
    child.kill(signal)
    const [code] = await instance.exited
    return code
  }
}
