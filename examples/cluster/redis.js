// A Redis of one's own: on a free port, and nothing of it stays.

import { once } from 'node:events'
import { createServer } from 'node:net'
import { spawnChild } from './children.js'

const programs = process.env.REDIS_SERVER
  ? [process.env.REDIS_SERVER]
  : ['redis-server', 'valkey-server']

/** `undefined`: there is none on this machine. */
export async function startRedis() {
  const port = await freePort()
  const options = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  for (const program of programs) {
    const child = spawnChild(program, options, { stdio: ['ignore', 'pipe', 'inherit'] })
    if (!(await hasBegun(child))) continue
    return { url: `redis://127.0.0.1:${port}`, close: () => void child.kill() }
  }
  return undefined
}

/** Resolves once it accepts connections; with `false` where there is no such program. */
function hasBegun(child) {
  return new Promise((resolve, reject) => {
    child.once('error', error => (error.code === 'ENOENT' ? resolve(false) : reject(error)))
    child.once('exit', code => reject(new Error(`Redis has ended with exit code ${code}`)))
    let said = ''
    child.stdout.on('data', text => {
      said += text
      if (said.includes('Ready to accept connections')) resolve(true)
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
