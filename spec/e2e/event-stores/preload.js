// Puts the middleware in front of a server that is a program of its own, whose code stays as it is:
// node --import preload.js <program>. Tells its parent how many POSTs have reached the server.
import http from 'node:http'
import { mcpStreams } from 'express-mcp-streams'
import { sessions } from 'express-mcp-streams/sessions'

const { sessions: lasting, ...others } = JSON.parse(process.env.OPTIONS ?? '{}')
const options = { retry: 50, ...others, ...(lasting && { sessions: sessions(lasting) }) }
const streams = process.env.BARE ? undefined : mcpStreams(options)
const { createServer } = http
let posts = 0
http.createServer = (...args) => {
  const handle = args.pop()
  const server = createServer(...args, (req, res) => {
    const next = () => {
      if (req.method === 'POST') posts++
      handle(req, res)
    }
    if (streams === undefined) next()
    else streams(req, res, next)
  })
  server.once('listening', () => process.send?.({ port: server.address().port }))
  return server
}
process.on('message', () => process.send({ posts }))
// The channel to the parent keeps no process alive that would have ended.
process.channel?.unref()
