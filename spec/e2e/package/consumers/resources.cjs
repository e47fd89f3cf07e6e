// A CommonJS module that serves its own folder, run where the packed package is installed.
const { fileResources, mcpStreams } = require('express-mcp-streams')
const express = require('express')
const { endpoint, streamFile } = require('./stream-file.cjs')

const streams = mcpStreams({ resources: fileResources('.', { baseUri: 'files:///' }) })
const app = express()
app.use('/mcp', streams)
app.all('/mcp', endpoint)
streamFile(app, streams)
