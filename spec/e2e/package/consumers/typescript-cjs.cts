// Strict TypeScript as CommonJS on bare node:http, compiled and run where the packed package is
// installed.
import packed = require('express-mcp-streams')
import inspecting = require('express-mcp-streams/inspector')
import http = require('node:http')
import consumer = require('./exercise.cjs')

const streams: packed.McpStreams = packed.mcpStreams()
const inspector: inspecting.Inspector = inspecting.inspector(streams)
const answer = consumer.endpoint((): string | undefined => packed.currentStream()?.id)
const listener: http.RequestListener = (req, res) =>
  inspector(req, res, () => streams(req, res, () => answer(req, res)))
void consumer.exercise(listener, streams)
