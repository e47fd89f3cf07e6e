// Report: a tool call of 12 s, behind a proxy that allows 2 s per request and no event streams.
// With resume tokens it arrives.
//
//   npm run report                   12 s
//   npm run report -- --seconds 60   the same, as long as you like
//
// server.js an MCP server that answers in JSON, and the line that gives out tokens: read this first
//   client.js         the official client, and the call that collects the report
//   strict-proxy.js   the proxy in between
// index.js makes the call, and the same without tokens; exit code 1 if something is missing or ran
// twice
//   options.js        the command line

import { once } from 'node:events'
import { getReport } from './client.js'
import { readOptions } from './options.js'
import { createServer, sections } from './server.js'
import { strictProxy } from './strict-proxy.js'
import { green, red } from '../terminal.js'

const options = readOptions()
if (options) await main(options)

async function main({ seconds }) {
  const duration = seconds * 1000
  const limit = duration / 6
  console.log(
    `A report that takes ${seconds} s. The proxy allows ${inSeconds(limit)} per request, and no event streams.\n`
  )

  const [report, bareReport] = await Promise.all([
    collect({ duration, limit, tell: console.log }),
    collect({ duration, limit, tell: () => {}, bare: true })
  ])
  const { times } = report
  const faults = faultsOf(report)
  const success = `${times.length} requests, ${inSeconds(Math.max(...times))} at the most; the tool ran once; all pages are there`
  console.log(
    faults ? red(`\n✘ with resume tokens: ${faults}`) : green(`\n✔ with resume tokens: ${success}`)
  )
  console.log(red(`✘ without: ${faultsOf(bareReport) || 'nothing was lost either'}`))
  process.exitCode = faults ? 1 : 0
}

/** Gets the report once, and tells what came of it. */
async function collect({ duration, limit, tell, bare = false }) {
  const { app, executions, close } = createServer({ duration, after: limit * 0.4 })
  const listener = app.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const proxy = await strictProxy({ port: listener.address().port, limit })

  const times = []
  const timedFetch = async (url, init) => {
    const started = performance.now()
    const response = await fetch(url, init)
    if (!init.body?.includes('"tools/call"')) return response
    times.push(performance.now() - started)
    const { result } = await response
      .clone()
      .json()
      .catch(() => ({}))
    const token = result?._meta?.nextResumeToken
    const what = token ? `not ready, token ${token.slice(0, 4)}…` : 'the result'
    tell(
      `  POST tools/call  ${response.status} after ${inSeconds(times.at(-1))}: ${response.ok ? what : 'no result'}`
    )
    return response
  }
  const onPage = content => tell(green(`    ${content.map(({ text }) => text).join(', ')}`))

  let pages, error
  try {
    pages = await getReport(new URL(`http://127.0.0.1:${proxy.port}/mcp`), {
      bare,
      fetch: timedFetch,
      onPage
    })
  } catch (reason) {
    error = reason
  }
  proxy.close()
  await close()
  listener.close()
  listener.closeAllConnections()
  return { pages, error, times, executions: executions() }
}

/** All that is wrong, in words; empty where nothing is. */
function faultsOf({ pages, error, executions }) {
  if (error) return `no report: ${error.message}`
  const titles = pages.map(({ text }) => text.split(':')[0])
  const faults = [
    titles.join() !== sections.join() && `the pages are ${titles.join(', ') || 'missing'}`,
    executions !== 1 && `the tool ran ${executions} times`
  ]
  return faults.filter(Boolean).join('; ')
}

function inSeconds(milliseconds) {
  return `${(milliseconds / 1000).toFixed(1)} s`
}
