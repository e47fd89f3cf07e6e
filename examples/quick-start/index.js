// Quick start: one tool call over a wire that is cut again and again. Nothing is lost, nothing comes twice.
//
//   npm start                          7 cuts: FIN, RST and silence
//   npm start -- --cuts 12 --seed 2    more cuts, at other bytes
//
//   server.js          an MCP server as you would write it, and the line that makes its calls survive: read this first
//   index.js           the official client, unmodified; exit code 1 if anything was lost or doubled
//   check.js           what "lost or doubled" means
//   cut-proxy.js       the bad network between client and server
//   search-index.js    the work that the tool does
//   options.js         the command line
//   terminal.js        the progress bar

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { findFaults } from './check.js'
import { cutProxy, planCuts } from './cut-proxy.js'
import { readOptions } from './options.js'
import { readDocuments } from './search-index.js'
import { startServer } from './server.js'
import { green, openView, red } from './terminal.js'

const options = readOptions()
if (options) await main(options)

async function main({ cuts, seed }) {
  const documents = await readDocuments(40)
  const plan = planCuts(cuts, seed)
  console.log(`One tool call of ${documents.length} steps. The wire is cut ${cuts} times.\n`)

  // The same call through the same cuts, at the same time: once with the middleware and once without.
  const view = openView(documents.length)
  const [call, bareCall] = await Promise.all([
    callThroughCuts({ documents, plan, view, timeout: 10_000 }),
    callThroughCuts({ documents, plan, bare: true, timeout: 4_000 })
  ])
  view.close()

  const faults = findFaults(call, documents)
  const bareFaults = findFaults(bareCall, documents)
  const success = `${call.cuts} cuts; all ${documents.length} steps once and in order; the tool ran once; result intact`
  console.log(faults ? red(`\n✘ with mcpStreams: ${faults}`) : green(`\n✔ with mcpStreams: ${success}`))
  console.log(bareFaults ? red(`✘ without: ${bareFaults}`) : green('✔ without: nothing was lost either'))
  process.exitCode = faults ? 1 : 0
}

/** Calls the tool once, through the cuts of `plan`, and tells what came of it. */
async function callThroughCuts({ documents, plan, bare = false, timeout, view }) {
  const server = await startServer({ documents, bare })
  const wire = await cutProxy({
    port: server.port,
    plan,
    onCut: ({ kind, after }) => view?.news(`${red('✂')} ${kind} after ${after} bytes of the response`),
    onResume: sequence => view?.news(`${green('↻')} resumed after event ${sequence}`)
  })
  const client = new Client({ name: 'quick-start', version: '1.0.0' })
  const steps = []
  const onprogress = ({ progress, message }) => {
    steps.push(progress)
    view?.step(progress, message)
  }
  let result, error
  try {
    await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${wire.port}/mcp`)), { timeout })
    const options = { onprogress, timeout, resetTimeoutOnProgress: true }
    result = await client.callTool({ name: 'reindex' }, undefined, options)
  } catch (reason) {
    error = reason
  }
  await client.close()
  wire.close()
  await server.close()
  return { steps, result, error, cuts: wire.cuts(), executions: server.executions() }
}
