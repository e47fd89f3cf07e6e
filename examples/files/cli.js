// The command line.
//
//   node examples/files/cli.js list <url>
//   node examples/files/cli.js get <url> <uri> [--to <folder>] [--limit <bytes>]

import { parseArgs } from 'node:util'
import { SingleBar } from 'cli-progress'
import { download, list } from './client.js'

const usage = `Usage: node examples/files/cli.js list <url>
       node examples/files/cli.js get <url> <uri> [--to <folder>] [--limit <bytes>]

  --to <folder>     where the file goes (.)
  --limit <bytes>   refuse what is larger`

const commands = {
  async list({ url }) {
    for (const { uri, size, streamable } of await list(url))
      console.log(`${String(size).padStart(12)}  ${streamable ? 'stream' : 'read  '}  ${uri}`)
  },

  async get({ url, uri, to, limit }) {
    const bar = new SingleBar({
      format: '{bar} {percentage}%  {value} of {total} bytes',
      stream: process.stderr
    })
    const onProgress = ({ received, size }) => {
      if (!bar.isActive) bar.start(size ?? 0, 0)
      bar.update(received)
    }
    const onReconnect = ({ received, reason }) =>
      console.log(`${reason}: goes on at byte ${received}`)
    try {
      const { path, size, how } = await download(url, uri, {
        folder: to,
        limit,
        onProgress,
        onReconnect
      })
      bar.stop()
      console.log(`${how}: ${path}, ${size} bytes`)
    } finally {
      bar.stop()
    }
  }
}

const options = readOptions()
if (options) {
  try {
    await commands[options.command](options)
  } catch (error) {
    console.error(error.message)
    process.exitCode = 1
  }
}

function readOptions() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        to: { type: 'string', default: '.' },
        limit: { type: 'string' },
        help: { type: 'boolean', short: 'h' }
      }
    })
    const [command, url, uri, ...more] = positionals
    if (values.help) return void console.log(usage)
    const isWhole =
      Object.hasOwn(commands, command ?? '') &&
      URL.canParse(url ?? '') &&
      (uri !== undefined) === (command === 'get')
    if (!isWhole || more.length > 0) throw new TypeError('What is to be done?')
    if (values.limit !== undefined && !/^\d+$/.test(values.limit))
      throw new TypeError('--limit must be a whole number')
    const limit = values.limit === undefined ? undefined : Number(values.limit)
    return { command, url, uri, to: values.to, limit }
  } catch (error) {
    console.error(`${error.message}\n\n${usage}`)
    process.exitCode = 2
  }
}
