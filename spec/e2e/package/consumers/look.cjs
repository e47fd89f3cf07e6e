// What one sees of the inspector: the title of its page, and its first event.
const { once } = require('node:events')
const { createServer } = require('node:http')

exports.look = async (app, streams) => {
  const server = createServer(app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${server.address().port}/mcp-streams`
  const page = await (await fetch(url)).text()
  const { body } = await fetch(`${url}/events`)
  const reader = body.getReader()
  const { value } = await reader.read()
  await reader.cancel()
  await streams.close()
  server.close()
  server.closeAllConnections()
  const title = /<title>(.*)<\/title>/.exec(page)[1]
  console.log(JSON.stringify({ title, event: Buffer.from(value).toString().slice(0, 12) }))
}
