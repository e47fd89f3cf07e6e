// The official client 2.x. The fetch below it knows tasks, so that it need not; `callTask` looks on.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { callTask, resumableFetch } from 'express-mcp-streams/client'

/**
 * Returns the text of the report; `bare`: as a plain call. `answer` answers questions, `show` sees the task each time that it
 * is looked at; `interval`: milliseconds between tries where the wire is cut; `connected` is called
 * once the server is known: a request before that is not sent again.
 */
export async function runJob(url, { bare, answer, show, interval, timeout, connected }) {
  const client = new Client(
    { name: 'tasks', version: '1.0.0' },
    { capabilities: { elicitation: {} }, versionNegotiation: { mode: { pin: '2026-07-28' } } }
  )
  client.setRequestHandler('elicitation/create', ({ params }) => ({
    action: 'accept',
    content: { answer: answer(params.message) }
  }))
  const fetch = bare ? undefined : resumableFetch({ tasks: true, minTimeout: interval })
  await client.connect(new StreamableHTTPClientTransport(url, { fetch }))
  connected()
  try {
    const { content } = bare
      ? await client.callTool({ name: 'report' }, { timeout })
      : await callTask(client, { name: 'report' }, { onStatus: show })
    return content[0].text
  } finally {
    await client.close()
  }
}
