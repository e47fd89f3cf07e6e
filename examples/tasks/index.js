// Tasks: a job of 20 s with a question in it, a wire that is cut every few seconds, and a stock
// client that gets a plain result.
//
//   npm run tasks                   twenty seconds
//   npm run tasks -- --seconds 4    the same, faster
//
// server.js an MCP server without a line about tasks, and the line that gives it some: read this
// first
//   client.js      the official client, and what shows how far its task is
//   cut-proxy.js   the wire in between
// index.js makes the call, and the same without the line; exit code 1 if its result does not arrive,
// or the job runs twice
//   options.js     the command line

import { once } from 'node:events'
import { runJob } from './client.js'
import { cutProxy } from './cut-proxy.js'
import { readOptions } from './options.js'
import { createServer } from './server.js'
import { dim, green, red } from '../terminal.js'

const options = readOptions()
if (options) await main(options)

async function main({ seconds }) {
  const duration = seconds * 1000
  console.log(`A job of ${seconds} s. The wire is cut every ${seconds / 8} s.\n`)
  const [task, call] = await Promise.all([run({ duration }), run({ duration, bare: true })])
  const faults = faultsOf(task)
  const success = `"${task.report}"; ${task.cuts} connections were cut`
  console.log(faults ? red(`\n✘ as a task: ${faults}`) : green(`\n✔ as a task: ${success}`))
  console.log(red(`✘ as a plain call: ${faultsOf(call) || 'nothing was lost either'}`))
  process.exitCode = faults ? 1 : 0
}

/** Has the job done once, and tells what came of it. */
async function run({ duration, bare = false }) {
  const { app, begun, close } = createServer({ duration, durable: !bare })
  const listener = app.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const proxy = await cutProxy({ port: listener.address().port, every: duration / 8 })

  let last
  const tell = line => {
    if (line !== last) console.log(`  ${line}`)
    last = line
  }

  let report, error
  try {
    report = await runJob(new URL(`http://127.0.0.1:${proxy.port}/mcp`), {
      bare,
      interval: duration / 40,
      timeout: duration * 2,
      connected: proxy.begin,
      answer: question => {
        if (!bare) console.log(`  ?  ${question}  Yes, of course.`)
        return 'Yes, of course.'
      },
      show: task => tell(bar(task))
    })
  } catch (reason) {
    error = reason
  }
  proxy.close()
  await close()
  listener.close()
  listener.closeAllConnections()
  return { report, error, begun: begun(), cuts: proxy.cuts() }
}

/** All that is wrong, in words; empty where nothing is. */
function faultsOf({ error, begun, cuts }) {
  const faults = [
    error && `no report: ${error.message}`,
    begun !== 1 && `the job was begun ${begun} times`,
    cuts === 0 && 'the wire was never cut'
  ]
  return faults.filter(Boolean).join('; ')
}

/** How far a task is, by its own words: "... (3/10)". */
function bar({ status, statusMessage = '' }) {
  const [, done = 0, of = 10] = /\((\d+)\/(\d+)\)$/.exec(statusMessage) ?? []
  const drawn = `[${green('#'.repeat(done))}${'.'.repeat(of - done)}]`
  return `${drawn}  ${status.padEnd(14)}  ${dim(statusMessage)}`.trimEnd()
}
