// Strict TypeScript as an ES module on Express 5, compiled and run where the packed package is installed.
import { currentStream, mcpStreams, type McpStreams, type McpStreamsOptions } from 'express-mcp-streams'
import express from 'express'
import { endpoint, exercise } from './exercise.cjs'

const options: McpStreamsOptions = { retry: 1000, owner: req => req.headers.authorization }
const streams: McpStreams = mcpStreams(options)
const app = express()
app.use('/mcp', streams)
app.all(
  '/mcp',
  endpoint((): string | undefined => currentStream()?.id)
)
await exercise(app, streams)
