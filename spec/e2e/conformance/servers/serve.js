// Serves one endpoint at /mcp on a free port of 127.0.0.1, bare or with the middleware, and tells
// the parent where.
import { parseArgs } from 'node:util'

export const { values: flags } = parseArgs({
  options: {
    bare: { type: 'boolean', default: false },
    'event-store': { type: 'boolean', default: false },
    stateless: { type: 'boolean', default: false },
    sse: { type: 'boolean', default: false }
  }
})

// A bare server has to run where the package has not been built.
const streams = flags.bare ? undefined : await import('express-mcp-streams')

/** What the middleware adds inside a handler; `undefined` when the server is bare. */
export const currentStream = () => streams?.currentStream()

/** The value of option `tasks`; `undefined` when the server is bare. */
export async function tasksOf(options) {
  return streams && (await import('express-mcp-streams/tasks')).tasks(options)
}

/** @param options of the middleware. */
export function serve(app, endpoint, options = {}) {
  if (streams) app.use('/mcp', streams.mcpStreams(options))
  app.all('/mcp', endpoint)

  const server = app.listen(0, '127.0.0.1', () => {
    const url = `http://127.0.0.1:${server.address().port}/mcp`
    if (process.send) process.send(url)
    else console.log(url)
  })
  process.once('disconnect', () => process.exit())
}
