// A server that requires the middleware and imports currentStream: two copies of the package in one
// process.
import { currentStream } from 'express-mcp-streams'
import { createRequire } from 'node:module'
import { endpoint, exercise } from './exercise.cjs'

const required = createRequire(import.meta.url)('express-mcp-streams')
if (required.currentStream === currentStream)
  throw new Error('This run has one copy only: it would prove nothing')

const streams = required.mcpStreams()
const answer = endpoint(() => currentStream()?.id)
await exercise((req, res) => streams(req, res, () => answer(req, res)), streams)
