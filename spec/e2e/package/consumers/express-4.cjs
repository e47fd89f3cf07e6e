// A CommonJS module on Express 4, run where the packed package is installed.
const { currentStream, mcpStreams } = require('express-mcp-streams')
const express = require('express')
const { endpoint, exercise } = require('./exercise.cjs')

const streams = mcpStreams()
const app = express()
app.use('/mcp', streams)
app.all(
  '/mcp',
  endpoint(() => currentStream()?.id)
)
exercise(app, streams)
