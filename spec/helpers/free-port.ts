// A port for a program that cannot be told to take any free one.

import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/**
 * Below the ports that systems give away by themselves (Linux from 32,768 on): one of those may
 * be somebody's before the program has it, or while it is down and to be started again. So low
 * that the bus of a Redis cluster, 10,000 above, is below them, too.
 */
const [LOWEST, HIGHEST] = [10_240, 22_000]

/** Of 127.0.0.1, where nobody listens, and nobody will by chance. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(LOWEST, HIGHEST)
    if (await isFree(port)) return port
  }
}

function isFree(port: number): Promise<boolean> {
  const probe = createServer()
  return new Promise((resolve, reject) => {
    probe.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(false) : reject(error)
    )
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}
