// Looks at the inspector's page, as an ES module on Express 5.
import { mcpStreams } from 'express-mcp-streams'
import { inspector } from 'express-mcp-streams/inspector'
import express from 'express'
import { look } from './look.cjs'

const streams = mcpStreams()
await look(express().use('/mcp-streams', inspector(streams, { actions: true })), streams)
