#!/usr/bin/env node
// `npx express-mcp-streams check <url>`: checks a running endpoint from where its clients are.
import { readFileSync, realpathSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { command } from './command.js'

const program = pathToFileURL(realpathSync(process.argv[1] as string))
const manifest = readFileSync(new URL('../../package.json', program), 'utf8')

void command(process.argv.slice(2), {
  out: line => console.log(line),
  err: line => console.error(line),
  version: (JSON.parse(manifest) as { version: string }).version,
  isColoured: process.stdout.isTTY && process.env['NO_COLOR'] === undefined
}).then(code => {
  process.exitCode = code
})
