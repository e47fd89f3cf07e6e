#!/usr/bin/env node
// `npx express-mcp-streams check <url>`: checks a running endpoint from where its clients are.
import { command } from './command.js'

void command(process.argv.slice(2), {
  out: line => console.log(line),
  err: line => console.error(line),
  isColoured: process.stdout.isTTY && process.env['NO_COLOR'] === undefined
}).then(code => {
  process.exitCode = code
})
