// Strict TypeScript as an ES module on Express 5, compiled and run where the packed package is
// installed.
import {
  currentStream,
  mcpStreams,
  type McpStreams,
  type McpStreamsOptions
} from 'express-mcp-streams'
import { inspector, type InspectorOptions } from 'express-mcp-streams/inspector'
import { type Resource, resources } from 'express-mcp-streams/resources'
import express from 'express'
import { endpoint, exercise } from './exercise.cjs'

const open = async (uri: string): Promise<Resource | undefined> =>
  uri === '' ? undefined : { body: Buffer.from(uri) }
const options: McpStreamsOptions = {
  retry: 1000,
  owner: req => req.headers.authorization,
  resources: resources({ open })
}
const streams: McpStreams = mcpStreams(options)
const app = express()
const inspecting: InspectorOptions = { allow: async req => req.method === 'GET' }
app.use('/mcp-streams', inspector(streams, inspecting))
app.use('/mcp', streams)
app.all(
  '/mcp',
  endpoint((): string | undefined => currentStream()?.id)
)
await exercise(app, streams)
