// An MCP server of 2026-07-28: Express, the official SDK, one job that takes long and asks a
// question half-way. It knows nothing of tasks; one line makes its job one.

import { toNodeHandler } from '@modelcontextprotocol/node'
import {
  createMcpHandler,
  inputRequired,
  inputResponse,
  McpServer
} from '@modelcontextprotocol/server'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { tasks } from 'express-mcp-streams/tasks'
import { setTimeout as sleep } from 'node:timers/promises'

const STEPS = 10

/** `duration`: milliseconds that the job takes; `durable`: with the line. */
export function createServer({ duration, durable }) {
  const app = express()
  let begun = 0
  let streams

  if (durable) {
    // The one line.
    streams = mcpStreams({
      tasks: tasks({ pollInterval: duration / 40, tools: { report: 'always' } })
    })
    app.use('/mcp', streams)
  }

  /** One half of the steps, with a word on each. */
  async function work(half, { mcpReq }) {
    const progressToken = mcpReq._meta?.progressToken
    for (let step = 1; step <= STEPS / 2; step++) {
      await sleep(duration / STEPS, undefined, { signal: mcpReq.signal })
      const progress = (half * STEPS) / 2 + step
      const params = { progressToken, progress, total: STEPS, message: 'Reading the archives' }
      if (progressToken !== undefined)
        await mcpReq.notify({ method: 'notifications/progress', params })
    }
  }

  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'archives', version: '1.0.0' })
    server.registerTool('report', { description: 'Reads all archives' }, async context => {
      const answer = inputResponse(context.mcpReq.inputResponses, 'secret')
      if (answer.kind !== 'elicit') {
        begun++
        await work(0, context)
        const requestedSchema = { type: 'object', properties: { answer: { type: 'string' } } }
        const message = 'May I read the secret ones?'
        return inputRequired({
          inputRequests: { secret: inputRequired.elicit({ message, requestedSchema }) }
        })
      }
      await work(1, context)
      return { content: [{ type: 'text', text: `All read. ${answer.content.answer}` }] }
    })
    return server
  })

  app.all('/mcp', toNodeHandler(handler))
  return { app, begun: () => begun, close: () => streams?.close({ drain: 0 }) }
}
