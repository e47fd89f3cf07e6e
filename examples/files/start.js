// Puts an app on a port of this machine.

import { once } from 'node:events'
import { createServer } from 'node:http'
import { pathToFileURL } from 'node:url'

/** Port 0: any that is free. */
export async function listen(app, port = 0) {
  const server = createServer(app).listen(port, '127.0.0.1')
  await once(server, 'listening')
  /** Takes no more connections: those that are open come to their end. */
  const stop = () => server.close()
  const close = () => {
    stop()
    server.closeAllConnections()
  }
  return {
    port: server.address().port,
    url: `http://127.0.0.1:${server.address().port}`,
    stop,
    close
  }
}

/** Whether a module is the one that was started. */
export const isMain = url => url === pathToFileURL(process.argv[1]).href
