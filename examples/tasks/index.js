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
// index.js makes the call; exit code 1 if its result does not arrive, or the job runs twice
//   options.js     the command line

import { once } from 'node:events'
import { runJob } from './client.js'
import { cutProxy } from './cut-proxy.js'
import { readOptions } from './options.js'
import { createServer } from './server.js'

const options = readOptions()
if (options) await main(options)

async function main({ seconds }) {
  const duration = seconds * 1000
  console.log(`A job of ${seconds} s. The wire is cut every ${seconds / 8} s.\n`)
  const { app, begun, close } = createServer({ duration })
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
      interval: duration / 40,
      connected: proxy.begin,
      answer: question => {
        console.log(`  ?  ${question}  Yes, of course.`)
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

  const faults = [
    error && `no report: ${error.message}`,
    begun() !== 1 && `the job was begun ${begun()} times`,
    proxy.cuts() === 0 && 'the wire was never cut'
  ].filter(Boolean)
  const cuts = `${proxy.cuts()} connections were cut`
  console.log(faults.length > 0 ? `\n✘ ${faults.join('; ')}` : `\n✔ "${report}"; ${cuts}`)
  process.exitCode = faults.length > 0 ? 1 : 0
}

/** How far a task is, by its own words: "... (3/10)". */
function bar({ status, statusMessage = '' }) {
  const [, done = 0, of = 10] = /\((\d+)\/(\d+)\)$/.exec(statusMessage) ?? []
  return `[${'#'.repeat(done)}${'.'.repeat(of - done)}]  ${status.padEnd(14)}  ${statusMessage}`.trimEnd()
}
