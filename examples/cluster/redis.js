// A Redis of one's own: on a free port, and nothing of it stays.

import { once } from 'node:events'
import { createServer } from 'node:net'
import { spawnChild } from './children.js'

const programs = process.env.REDIS_SERVER
  ? [process.env.REDIS_SERVER]
  : ['redis-server', 'valkey-server']

/** `undefined`: there is none on this machine. */
export async function startRedis() {
  for (const program of programs) {
    for (let attempt = 1; attempt <= 3; attempt++) {
      const port = await freePort()
      const options = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
      const child = spawnChild(program, options, { stdio: ['ignore', 'pipe', 'inherit'] })
      const said = await firstWords(child)
      if (said === undefined) break
      if (READY.test(said)) return { url: `redis://127.0.0.1:${port}`, close: () => child.kill() }
      // Somebody else may take the free port before Redis does.
      if (!/already in use/i.test(said)) throw new Error(`${program} has ended:\n${said}`)
    }
  }
  return undefined
}

const READY = /Ready to accept connections/

/** Until it accepts connections, or has ended; `undefined` where there is no such program. */
function firstWords(child) {
  return new Promise((resolve, reject) => {
    child.once('error', error => (error.code === 'ENOENT' ? resolve(undefined) : reject(error)))
    let said = ''
    child.once('close', () => resolve(said))
    child.stdout.on('data', text => {
      said += text
      if (READY.test(said)) resolve(said)
    })
  })
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  await new Promise(resolve => server.close(resolve))
  return port
}
