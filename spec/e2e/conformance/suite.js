// Runs the official suite against one example server and reads what it found.
import { buildSync } from 'esbuild'
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath, pathToFileURL } from 'node:url'

const here = name => fileURLToPath(new URL(name, import.meta.url))
const cli = join(
  dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/conformance/package.json')),
  'dist/index.js'
)
const bundle = here('../../../node_modules/.cache/conformance/index.cjs')
let isBundled = false

/**
 * The suite's command in one file, which starts in a third of the time; a run starts it some twenty
 * times. CommonJS, because the command imports `globSync` from `fs`, which Node has from 22 on, and
 * an ES module does not link without.
 */
function bundled() {
  if (isBundled) return bundle
  buildSync({
    entryPoints: [cli],
    outfile: bundle,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    define: { 'import.meta.url': JSON.stringify(pathToFileURL(cli).href) },
    logLevel: 'error'
  })
  isBundled = true
  return bundle
}

/** A scenario takes two seconds at most and a run four; these are for a server that hangs. */
const scenarioTimeout = 10_000
const suiteTimeout = 45_000

async function startServer(file, flags) {
  const stdio = ['ignore', 'ignore', 'inherit', 'ipc']
  const child = fork(here(`servers/${file}`), flags, { stdio })
  const exited = once(child, 'exit')
  const url = await Promise.race([
    once(child, 'message').then(([url]) => url),
    exited.then(() => undefined)
  ])
  if (url === undefined) throw new Error(`${file} did not start`)
  return {
    url,
    async stop() {
      child.kill()
      await exited
    }
  }
}

/** The suite's own list of results: a folder per scenario, named after it and the time it began. */
function read(folder) {
  return readdirSync(folder)
    .map(name => /^server-(?<scenario>.+)-(?<began>\d{4}-\d\d-\d\dT[\d-]+Z)$/.exec(name))
    .sort((a, b) => (a.groups.began < b.groups.began ? -1 : 1))
    .map(([name, scenario]) => {
      const file = join(folder, name, 'checks.json')
      const missing = [
        {
          id: scenario,
          name: scenario,
          status: 'FAILURE',
          errorMessage: 'The scenario did not end'
        }
      ]
      return {
        scenario,
        checks: existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : missing
      }
    })
}

/**
 * Every scenario that the revision names, in one process, or those of the variant: `[{ scenario, checks: [{ id, name,
 * status, … }] }]`.
 */
export async function runSuite(variant, { bare }) {
  const { server: file, flags, revision, scenarios } = variant
  const server = await startServer(file, bare ? [...flags, '--bare'] : flags)
  try {
    if (scenarios === undefined) return await run(server.url, ['--requirements', revision])
    const single = scenario =>
      run(server.url, ['--scenario', scenario, '--spec-version', revision, '--force'])
    // Mostly they wait, but each is a process of its own.
    const results = []
    for (let i = 0; i < scenarios.length; i += 3)
      results.push(...(await Promise.all(scenarios.slice(i, i + 3).map(single))))
    return results.flat()
  } finally {
    await server.stop()
  }
}

/** Runs the suite's command once. */
async function run(url, which) {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'))
  try {
    const what = ['--url', url, ...which, '--timeout', `${scenarioTimeout}`, '-o', folder]
    const args = [bundled(), 'server', ...what]
    const child = spawn(process.execPath, args, { timeout: suiteTimeout })
    const [output, errors] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close')
    ])
    // It counts them where there may be more than one.
    const expected = Number(/\((\d+) scenarios\)/.exec(output)?.[1] ?? 1)
    const results = read(folder)
    // The exit code says whether all checks pass, which some do not, bare; a suite that broke off
    // says less.
    if (results.length !== expected) throw new Error(`The suite broke off: ${errors || output}`)
    return results
  } finally {
    rmSync(folder, { recursive: true })
  }
}
