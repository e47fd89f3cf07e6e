// Elicitation: a tool asks a human twice, and while the human thinks the server holds nothing. The
// wire is cut three times.
//
//   npm run elicitation             you answer
//   npm run elicitation -- --yes    nobody does: takes what is suggested
//
// server.js an MCP server as you would write it, and the line that hands its questions over: read
// this first
//   client.js       the official client, and the line that brings the answers back
// index.js makes the call; exit code 1 if it ran, asked or was answered more often than it should
//   wire.js         what happens on the wire, in words
//   cut-proxy.js    the bad network between client and server
//   options.js      the command line
//   terminal.js     questions, and news above them

import { EventEmitter, once } from 'node:events'
import { callTool } from './client.js'
import { cutProxy, plan } from './cut-proxy.js'
import { readOptions } from './options.js'
import { createServer } from './server.js'
import { openTerminal, openUnattended } from './terminal.js'
import { reconnectionInWords, watchedFetch } from './wire.js'
import { dim, green, red } from '../terminal.js'

const options = readOptions()
if (options) await main(options)

async function main({ yes }) {
  const terminal = yes ? openUnattended() : openTerminal()
  const { app, seen, waiting, close } = createServer()
  const listener = app.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  let cuts = 0
  let asked = 0
  const wire = await cutProxy({
    port: listener.address().port,
    cuts: plan,
    onCut: ({ what, kind }) =>
      terminal.news(`  ${red('✂')} ${kind} ${what} (cut ${++cuts} of ${plan.length})`)
  })
  const handOffs = new EventEmitter()
  const fetch = watchedFetch((line, response) => {
    terminal.news(dim(`  ${line}`))
    if (response?.status === 204) handOffs.emit('our turn')
  })

  /** The human. */
  async function answer({ message, requestedSchema }) {
    const ourTurn = once(handOffs, 'our turn')
    asked++
    terminal.news(`\n${message}`)
    if (yes) await ourTurn
    const content = {}
    for (const [name, property] of Object.entries(requestedSchema.properties))
      while (content[name] === undefined)
        content[name] = read(property, await terminal.ask(inWords(property)))
    const sockets = await new Promise(resolve =>
      listener.getConnections((_, count) => resolve(count))
    )
    terminal.news(
      green(`\n  While you thought: calls waiting: ${waiting()}, sockets held: ${sockets}\n`)
    )
    return { action: 'accept', content }
  }

  console.log('One tool call that asks twice. The wire is cut three times.\n')
  let result, error
  try {
    const onReconnect = reconnection => terminal.news(dim(`  ${reconnectionInWords(reconnection)}`))
    result = await callTool(new URL(`http://127.0.0.1:${wire.port}/mcp`), {
      answer,
      fetch,
      onReconnect
    })
  } catch (reason) {
    error = reason
  }
  terminal.close()
  wire.close()
  await close()
  listener.close()
  listener.closeAllConnections()

  const { runs, questions, answers } = seen
  const isFine = error === undefined && runs === 1 && asked === questions && answers === questions
  console.log(error ? red(`\n✘ ${error.message}`) : `\n${result}`)
  const counts = `the tool ran ${times(runs)}, asked ${times(questions)}, was answered ${times(answers)}`
  const summary = `${cuts} cuts; ${counts}; the human was asked ${times(asked)}`
  console.log(isFine ? green(`✔ ${summary}`) : red(`✘ ${summary}`))
  process.exitCode = isFine ? 0 : 1
}

function times(count) {
  return count === 1 ? 'once' : count === 2 ? 'twice' : `${count} times`
}

function inWords({ title, type, default: fallback }) {
  return `${title} [${type === 'boolean' ? (fallback ? 'yes' : 'no') : fallback}]`
}

/** What was typed, as the schema wants it; `undefined` where it cannot be had. */
function read({ type, default: fallback }, typed) {
  if (typed === '') return fallback
  if (type === 'integer') return /^\d+$/.test(typed) ? Number(typed) : undefined
  if (type === 'boolean') return { y: true, yes: true, n: false, no: false }[typed.toLowerCase()]
  return typed
}
