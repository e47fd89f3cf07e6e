// Files over MCP: the same files in three ways, over wires that are cut again and again. Every byte
// is compared.
//
//   npm run files -- [--size <MiB>]
//
//   server.js     an MCP server over a folder, with `resources/stream`: read this first
//   storage.js    a second server with signed URLs, for the mode `redirect`
//   client.js     lists files and brings them to the disk; falls back to `resources/read`
//   cli.js        the same as a command line, with a progress bar
//   start.js      puts an app on a port
//   ../quick-start/cut-proxy.js   the bad network

import { randomBytes, randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SingleBar } from 'cli-progress'
import { cutProxy } from '../quick-start/cut-proxy.js'
import { download, list } from './client.js'
import { createServer } from './server.js'
import { listen } from './start.js'
import { createStorage } from './storage.js'

const MODES = ['direct', 'redirect', 'download']
const KINDS = ['FIN', 'RST', 'silence']
const LARGE = 'files:///reports/2026%20Q1.pdf'
const SMALL = 'files:///readme.txt'

const usage = `Usage: npm run files -- [--size <MiB>]

  --size <MiB>   how large the large file is, 0.1 to 1024 (8)
  -h, --help     this text`

const size = readSize()
console.log(
  `A file of ${(size / 2 ** 20).toFixed(1)} MiB in three ways. Each time the wire is cut ${KINDS.length} times in the middle of it.`
)

const temporary = await mkdtemp(join(tmpdir(), 'files-'))
const folder = join(temporary, 'served')
const target = join(temporary, 'saved')
try {
  await mkdir(join(folder, 'reports'), { recursive: true })
  await mkdir(target)
  const large = randomBytes(size)
  const small = Buffer.from('Small enough to be read.\n')
  await writeFile(join(folder, 'reports/2026 Q1.pdf'), large)
  await writeFile(join(folder, 'readme.txt'), small)
  for (const mode of MODES) await withServers(mode, url => show(mode, url, large, small))
} finally {
  await rm(temporary, { recursive: true })
}

/** Lists the files, brings both to the disk, and refuses the large one where it is too large. */
async function show(mode, url, large, small) {
  console.log(`\n${mode}`)
  for (const { uri, size, streamable } of await list(url))
    console.log(`  ${String(size).padStart(10)}  ${streamable ? 'stream' : 'read  '}  ${uri}`)

  const bar = new SingleBar({ format: '  {bar} {percentage}%', clearOnComplete: true })
  bar.start(size, 0)
  const lines = []
  const options = {
    folder: target,
    onProgress: ({ received }) => bar.update(received),
    onReconnect: ({ received, reason }) => lines.push(`  ↻ ${reason}: goes on at byte ${received}`),
    // For a short demonstration: the defaults are more patient.
    ...{ minTimeout: 50, idleTimeout: 500 }
  }
  const streamed = await download(url, LARGE, options)
  bar.stop()
  for (const line of lines) console.log(line)
  await tell('streamed', streamed, large, lines.length === KINDS.length)
  await tell('read', await download(url, SMALL, options), small)

  const refused = await download(url, LARGE, { ...options, limit: size - 1 }).catch(error => error)
  mark(refused.code === 'too-large', `with a limit of ${size - 1} bytes: ${refused.message}`)
}

async function tell(how, saved, bytes, isAsPlanned = true) {
  const isSame = (await readFile(saved.path)).equals(bytes)
  mark(
    isSame && isAsPlanned && saved.how === how,
    `${saved.how}: ${saved.size} bytes, ${isSame ? 'the same' : 'OTHERS'}`
  )
}

function mark(isFine, text) {
  if (!isFine) process.exitCode = 1
  console.log(`  ${isFine ? '✔' : '✘'} ${text}`)
}

/**
 * An MCP server and a storage, each at the end of a bad wire. The one that sends the large file is
 * cut three times in the middle of it.
 */
async function withServers(mode, work) {
  const open = []
  const plan = KINDS.map((kind, i) => ({ kind, after: Math.floor((size * (i + 2)) / 14) }))
  const behindBadWire = async (app, cuts) => {
    const server = await listen(app)
    const wire = await cutProxy({ port: server.port, plan: cuts })
    open.push(wire, server)
    return `http://127.0.0.1:${wire.port}`
  }
  const secret = randomUUID()
  const storage = await behindBadWire(
    createStorage({ folder, secret }),
    mode === 'redirect' ? plan : []
  )
  // Download URLs are below the URL that clients see, which is known once there is a wire: so the
  // app comes last.
  const url = `${await behindBadWire((req, res) => server.app(req, res), mode === 'redirect' ? [] : plan)}/mcp`
  const server = createServer({ folder, mode, storage: { url: storage, secret }, publicUrl: url })
  try {
    await work(url)
  } finally {
    await server.close()
    for (const one of open) one.close()
  }
}

/** Bytes of the large file. Ends the process where there is nothing to run. */
function readSize() {
  try {
    const { values } = parseArgs({
      options: { size: { type: 'string', default: '8' }, help: { type: 'boolean', short: 'h' } }
    })
    const mebibytes = Number(values.size)
    if (!values.help && mebibytes >= 0.1 && mebibytes <= 1024)
      return Math.round(mebibytes * 2 ** 20)
    if (!values.help)
      throw new RangeError(`--size must be a number from 0.1 to 1024, not '${values.size}'`)
    console.log(usage)
    process.exit()
  } catch (error) {
    console.error(`${error.message}\n\n${usage}`)
    process.exit(2)
  }
}
