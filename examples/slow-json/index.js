// Slow JSON: a tool that takes 20 s, a server that answers in JSON, a proxy that cuts after 5 s of
// silence. With one line it arrives.
//
//   npm run slow-json                   twenty seconds
//   npm run slow-json -- --seconds 4    the same, faster
//
// server.js an MCP server that answers in JSON, and the line that keeps its slow calls alive: read
// this first
//   client.js          the official client, unmodified
//   silence-proxy.js   the proxy in between
// index.js makes the call, with the line and without; exit code 1 if it does not arrive, or runs
// twice
//   options.js         the command line

import { once } from 'node:events'
import { getSummary } from './client.js'
import { readOptions } from './options.js'
import { createServer } from './server.js'
import { silenceProxy } from './silence-proxy.js'
import { dim, green, red } from '../terminal.js'

const options = readOptions()
if (options) await main(options)

async function main({ seconds }) {
  const duration = seconds * 1000
  const limit = duration / 4
  console.log(
    `A tool that takes ${seconds} s. The proxy cuts after ${inSeconds(limit)} of silence.\n`
  )

  const started = performance.now()
  const tick = () =>
    console.log(dim(`  ${inSeconds(performance.now() - started).padStart(6)}  the tool works`))
  const ticks = setInterval(tick, duration / 10)
  const [durable, bare] = await Promise.all([
    callOnce({ duration, limit, durable: true }),
    callOnce({ duration, limit, durable: false })
  ])
  clearInterval(ticks)
  const faults = faultsOf(durable)
  const success = `"${durable.text}" after ${inSeconds(durable.took)}; the tool ran once`
  console.log(
    faults
      ? red(`\n✘ with the middleware: ${faults}`)
      : green(`\n✔ with the middleware: ${success}`)
  )
  console.log(red(`✘ without: ${faultsOf(bare) || 'nothing was lost either'}`))
  process.exitCode = faults ? 1 : 0
}

/** Makes the call once, and tells what came of it. */
async function callOnce({ duration, limit, durable }) {
  const name = durable ? 'with   ' : 'without'
  const started = performance.now()
  const tell = what =>
    console.log(`  ${inSeconds(performance.now() - started).padStart(6)}  ${name}  ${what}`)
  const { app, executions, close } = createServer({ duration, limit, durable })
  const listener = app.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const proxy = await silenceProxy({ port: listener.address().port, limit })

  const watched = async (url, init) => {
    const isCall = init.body?.includes('"tools/call"')
    try {
      const response = await fetch(url, init)
      if (isCall)
        tell(`POST tools/call  ${response.status} ${response.headers.get('content-type')}`)
      return response
    } catch (error) {
      if (isCall) tell(`POST tools/call  cut off: ${error.cause?.message ?? error.message}`)
      throw error
    }
  }

  let text, error
  try {
    const url = new URL(`http://127.0.0.1:${proxy.port}/mcp`)
    text = await getSummary(url, { fetch: watched, timeout: duration * 2 })
  } catch (reason) {
    error = reason
  }
  const took = performance.now() - started
  proxy.close()
  await close()
  listener.close()
  listener.closeAllConnections()
  return { text, error, took, executions: executions() }
}

/** All that is wrong, in words; empty where nothing is. */
function faultsOf({ text, error, executions }) {
  if (error) return `no summary: ${error.message}`
  const faults = [
    text !== 'All is well' && `the summary is ${text}`,
    executions !== 1 && `the tool ran ${executions} times`
  ]
  return faults.filter(Boolean).join('; ')
}

function inSeconds(milliseconds) {
  return `${(milliseconds / 1000).toFixed(1)} s`
}
