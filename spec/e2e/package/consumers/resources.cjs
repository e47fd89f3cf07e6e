// A CommonJS module that serves its own folder, run where the packed package is installed.
const { mcpStreams } = require('express-mcp-streams')
const { fileResources, resources } = require('express-mcp-streams/resources')
const express = require('express')
const { endpoint, streamFile } = require('./stream-file.cjs')

const streams = mcpStreams({ resources: resources(fileResources('.', { baseUri: 'files:///' })) })
const app = express()
app.use('/mcp', streams)
app.all('/mcp', endpoint)
streamFile(app, streams)
