// Processes of a bench: the bench forks them and calls their methods by name, the server apart from
// its load.

import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const profiles = process.env.BENCH_CPU_PROF

/**
 * Forks a module of this folder. `call(method, params)` answers what the method of the child
 * returns.
 */
export async function start(module, options = {}) {
  const execArgv = ['--expose-gc', '--no-warnings']
  if (profiles && module.endsWith('server.js'))
    execArgv.push('--cpu-prof', `--cpu-prof-dir=${profiles}`)
  const child = fork(fileURLToPath(new URL(module, import.meta.url)), [JSON.stringify(options)], {
    execArgv
  })
  const calls = new Map()
  let last = 0

  const exited = once(child, 'exit').then(([code, signal]) => {
    for (const { reject } of calls.values())
      reject(new Error(`${module} ended early (${signal ?? code})`))
  })
  child.on('message', ({ id, value, error }) => {
    const { resolve, reject } = calls.get(id)
    calls.delete(id)
    if (error === undefined) resolve(value)
    else reject(new Error(`${module}: ${error}`))
  })

  const call = (method, params) =>
    new Promise((resolve, reject) => {
      calls.set(++last, { resolve, reject })
      child.send({ id: last, method, params })
    })
  const stop = () => {
    if (child.connected) child.disconnect()
    return exited
  }
  /** At once, and with nothing said to anybody. */
  const kill = () => child.kill('SIGKILL')
  await call('ready')
  return { ...options, call, stop, kill }
}

/** The other side: answers the calls of the bench, and ends with it. */
export function answer(methods) {
  const known = { ready: () => undefined, ...methods }
  process.on('message', async ({ id, method, params }) => {
    try {
      process.send({ id, value: await known[method](params) })
    } catch (error) {
      process.send({ id, error: error.stack })
    }
  })
  process.once('disconnect', () => process.exit())
}

const SPARE_FILES = 200

/** How many connections a process may have: open files are limited. */
export function mostSockets() {
  if (process.platform === 'win32') return Infinity
  const limit = execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).trim()
  return limit === 'unlimited' ? Infinity : Number(limit) - SPARE_FILES
}

/** What the bench asked for when it forked this process. */
export const options = JSON.parse(process.argv[2]?.startsWith('{') ? process.argv[2] : '{}')
