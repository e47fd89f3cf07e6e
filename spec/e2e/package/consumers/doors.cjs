// All entry points, required.
const doors = {
  ...require('express-mcp-streams'),
  ...require('express-mcp-streams/backplane'),
  ...require('express-mcp-streams/client'),
  ...require('express-mcp-streams/client/node'),
  ...require('express-mcp-streams/cookie'),
  ...require('express-mcp-streams/inspector'),
  ...require('express-mcp-streams/redis'),
  ...require('express-mcp-streams/resources'),
  ...require('express-mcp-streams/sessions'),
  ...require('express-mcp-streams/tasks'),
  ...require('express-mcp-streams/wires')
}
void import('./jobs.mjs').then(({ exerciseDoors }) => exerciseDoors(doors))
