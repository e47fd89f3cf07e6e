// Looks at the inspector's page, as a CommonJS module on Express 4.
const { mcpStreams } = require('express-mcp-streams')
const { inspector } = require('express-mcp-streams/inspector')
const express = require('express')
const { look } = require('./look.cjs')

const streams = mcpStreams()
look(express().use('/mcp-streams', inspector(streams, { actions: true })), streams)
