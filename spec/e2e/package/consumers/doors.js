// All entry points, imported.
import * as main from 'express-mcp-streams'
import * as backplane from 'express-mcp-streams/backplane'
import * as client from 'express-mcp-streams/client'
import * as clientNode from 'express-mcp-streams/client/node'
import * as cookie from 'express-mcp-streams/cookie'
import * as inspector from 'express-mcp-streams/inspector'
import * as redis from 'express-mcp-streams/redis'
import * as resources from 'express-mcp-streams/resources'
import * as sessions from 'express-mcp-streams/sessions'
import * as tasks from 'express-mcp-streams/tasks'
import * as wires from 'express-mcp-streams/wires'
import { exerciseDoors } from './jobs.mjs'

void exerciseDoors({
  ...main,
  ...backplane,
  ...client,
  ...clientNode,
  ...cookie,
  ...inspector,
  ...redis,
  ...resources,
  ...sessions,
  ...tasks,
  ...wires
})
