// An ES module that serves its own folder, run where the packed package is installed.
import { mcpStreams } from 'express-mcp-streams'
import { fileResources, resources } from 'express-mcp-streams/resources'
import express from 'express'
import { endpoint, streamFile } from './stream-file.cjs'

const streams = mcpStreams({ resources: resources(fileResources('.', { baseUri: 'files:///' })) })
const app = express()
app.use('/mcp', streams)
app.all('/mcp', endpoint)
await streamFile(app, streams)
