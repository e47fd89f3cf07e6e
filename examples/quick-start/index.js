// Quick start: tool calls over wires that are cut again and again. Nothing is lost, nothing comes
// twice.
//
//   npm start                          7 cuts: FIN, RST and silence
//   npm start -- --cuts 12 --seed 2    more cuts, at other bytes
//   npm start -- --open                the playground instead: a page where you cut the wire
//
// server.js an MCP server as you would write it, and the line that makes its calls survive: read
// this first
//   client.js          the official client, unmodified: it resumes by itself
// server-v2.js second act: the same server on SDK 2, at revision 2026-07-28, where a lost
// connection cancels the call
//   client-v2.js       the official client 2, and the line that makes its calls survive
//   index.js           makes the calls; exit code 1 if anything was lost or doubled
//   check.js           what "lost or doubled" means
//   cut-proxy.js       the bad network between client and server
//   search-index.js    the work that the tool does
//   options.js         the command line
//   terminal.js        the progress bar

import { once } from 'node:events'
import { findFaults } from './check.js'
import * as client from './client.js'
import * as clientV2 from './client-v2.js'
import { cutProxy, planCuts } from './cut-proxy.js'
import { readOptions } from './options.js'
import { readDocuments } from './search-index.js'
import * as server from './server.js'
import * as serverV2 from './server-v2.js'
import { openView } from './terminal.js'
import { green, red } from '../terminal.js'

// `createServer` and `callTool` of each act.
const v1 = { ...server, ...client }
const v2 = { ...serverV2, ...clientV2 }

if (process.argv.includes('--open')) {
  await import('../playground/index.js')
} else {
  const options = readOptions()
  if (options) await main(options)
}

async function main({ cuts, seed }) {
  const documents = await readDocuments(40)
  const plan = planCuts(cuts, seed)
  const planV2 = planCuts(3, seed)
  const view = openView(documents.length)
  const news = []
  const onReconnect = reconnection => news.push(inWords(reconnection))

  // Four calls at the same time, each with a server and a wire of its own; the second act is told
  // after the first.
  console.log(`One tool call of ${documents.length} steps. The wire is cut ${cuts} times.\n`)
  const [call, bareCall, callV2, bareCallV2] = await Promise.all([
    callThroughCuts({ ...v1, documents, plan, view, timeout: 10_000 }),
    callThroughCuts({ ...v1, documents, plan, bare: true, timeout: 4_000 }),
    callThroughCuts({ ...v2, documents, plan: planV2, timeout: 10_000, onReconnect }),
    callThroughCuts({ ...v2, documents, plan: planV2, bare: true, timeout: 4_000 })
  ])
  view.close()
  const isFine = tell('mcpStreams', call, bareCall, documents)

  console.log(
    '\nMeanwhile at revision 2026-07-28, where a lost connection cancels the call: FIN, RST and silence.\n'
  )
  console.log(news.join('\n'))
  const isFineV2 = tell('resumableFetch', callV2, bareCallV2, documents)
  process.exitCode = isFine && isFineV2 ? 0 : 1
}

/** Calls the tool once, through the cuts of `plan`, and tells what came of it. */
async function callThroughCuts({
  createServer,
  callTool,
  documents,
  plan,
  view,
  bare = false,
  ...callOptions
}) {
  const { app, executions, close } = createServer({ documents, bare })
  const listener = app.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const wire = await cutProxy({
    port: listener.address().port,
    plan,
    onCut: ({ kind, after }) =>
      view?.news(`${red('✂')} ${kind} after ${after} bytes of the response`),
    onResume: sequence => view?.news(`${green('↻')} resumed after event ${sequence}`)
  })
  const steps = []
  const onprogress = ({ progress, message }) => {
    steps.push(progress)
    view?.step(progress, message)
  }
  let result, error
  try {
    result = await callTool(new URL(`http://127.0.0.1:${wire.port}/mcp`), {
      bare,
      onprogress,
      ...callOptions
    })
  } catch (reason) {
    error = reason
  }
  wire.close()
  await close()
  listener.close()
  listener.closeAllConnections()
  return { steps, result, error, cuts: wire.cuts(), executions: executions() }
}

/** The final lines of an act. Without what it is about, a call may be lost; with it, none. */
function tell(name, call, bareCall, documents) {
  const faults = findFaults(call, documents)
  const bareFaults = findFaults(bareCall, documents)
  const success = `${call.cuts} cuts; all ${documents.length} steps once and in order; the tool ran once; result intact`
  console.log(faults ? red(`\n✘ with ${name}: ${faults}`) : green(`\n✔ with ${name}: ${success}`))
  console.log(
    bareFaults ? red(`✘ without: ${bareFaults}`) : green('✔ without: nothing was lost either')
  )
  return !faults
}

/** What `resumableFetch` tells before it reconnects. */
function inWords({ reason, lastEventId }) {
  const deed = lastEventId
    ? `resumes after event ${lastEventId.match(/^[\w-]+(?:\.r\d+)?\.(\d+)/)[1]}`
    : 'sends the call again'
  return `${green('↻')} ${reason}: ${deed}`
}
