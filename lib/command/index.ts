// `npx express-mcp-streams check <url>`: checks a running endpoint from where its clients are.
// `npx express-mcp-streams proxy <url>`: stands in front of an endpoint in any language.
import { once } from 'node:events'
import { readFileSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { command } from '../check/command.js'
import { proxy, type Redis } from '../proxy/command.js'

const program = pathToFileURL(realpathSync(process.argv[1] as string))
const manifest = readFileSync(new URL('../../package.json', program), 'utf8')
const [name, ...args] = process.argv.slice(2)

const output = {
  out: (line: string) => console.log(line),
  err: (line: string) => console.error(line),
  version: (JSON.parse(manifest) as { version: string }).version,
  isColoured: process.stdout.isTTY && process.env['NO_COLOR'] === undefined
}

const surroundings = {
  ...output,
  env: process.env,
  readFile: (path: string) => readFileSync(path, 'utf8'),
  // An optional peer dependency, which the package itself must do without.
  loadRedis: () => createRequire(program)('redis') as Redis,
  stopped: () => Promise.race(['SIGINT', 'SIGTERM'].map(signal => once(process, signal)))
}

const run = name === 'proxy' ? proxy(args, surroundings) : command(process.argv.slice(2), output)

void run.then(code => {
  process.exitCode = code
})
