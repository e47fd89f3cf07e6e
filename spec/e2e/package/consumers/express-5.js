// An ES module on Express 5, run where the packed package is installed.
import { currentStream, mcpStreams } from 'express-mcp-streams'
import express from 'express'
import { endpoint, exercise } from './exercise.cjs'

const streams = mcpStreams()
const app = express()
app.use('/mcp', streams)
app.all(
  '/mcp',
  endpoint(() => currentStream()?.id)
)
await exercise(app, streams)
