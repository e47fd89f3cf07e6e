// WebSocket: a tool call over a socket that breaks twice. Nothing is lost, nothing comes twice.
//
//   npm run websocket
//
//   server.js       the server, and the line that keeps its calls: read this first
//   client.js       the official client, and the line that brings it back
//   web-socket.js   a WebSocket as a transport of the SDK
//   index.js        makes the call; exit code 1 if something is missing, doubled or ran twice

import { once } from 'node:events'
import { callTool } from './client.js'
import { createServer } from './server.js'
import { takeNoOptions } from '../terminal.js'

takeNoOptions('websocket')

const STEPS = 10
const CUTS = [3, 7]

console.log(`One tool call of ${STEPS} steps over a WebSocket that breaks ${CUTS.length} times.\n`)
const { sockets, executions, close } = createServer({ steps: STEPS })
await once(sockets, 'listening')

const seen = []
const onprogress = ({ progress }) => {
  seen.push(progress)
  console.log(`  step ${progress}`)
  if (!CUTS.includes(progress)) return
  console.log('  ✂ the socket breaks')
  for (const socket of sockets.clients) socket.terminate()
}
const onReconnect = ({ attempt, delay }) => console.log(`  ↻ attempt ${attempt} in ${delay} ms`)

let text
try {
  const url = `ws://127.0.0.1:${sockets.address().port}`
  const { content } = await callTool(url, { onprogress, onReconnect })
  text = content[0].text
} catch (error) {
  text = `failed: ${error.message}`
}
await close()

const isWhole = seen.join() === Array.from({ length: STEPS }, (_, i) => i + 1).join()
const isFine = isWhole && executions() === 1 && text === `Counted to ${STEPS}`
console.log(
  `${isFine ? '✔' : '✘'} ${text}; steps: ${seen.length}; the tool ran ${executions() === 1 ? 'once' : `${executions()} times`}`
)
process.exitCode = isFine ? 0 : 1
