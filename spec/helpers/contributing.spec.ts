// The examples of how a case is added, as they stand in CONTRIBUTING.md.

import { expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { parseStreamName } from '../../lib/protocol/event-id.js'
import { rawEndpoint } from './endpoints/raw.js'
import { callTool } from './mcp.js'
import { serve } from './serve.js'
import { cut, end, go, post, resume, take, WAYS } from './talk/client.js'
import { hold, note, notes, result } from './talk/endpoint.js'
import { conversation, primer } from './talk/index.js'

conversation('a cut between two events', {
  endpoint: [note(1), hold, note(2), result], // `hold` waits for the client's `go`
  client: [post, take(2), cut, go, resume, end], // reads two events, and leaves; `end` reads the rest
  sees: [primer, 1, primer, 2, 'result', 'end']
})

conversation.each(WAYS)('a finished stream gives what is left of it, by GET of %s', (_, by) => ({
  endpoint: [notes(1, 3), result],
  client: [post, end, resume({ by, after: 2 }), end],
  sees: [primer, 1, 2, 3, 'result', 'end', primer, 3, 'result', 'end']
}))

it.each(['', '../..', '__proto__'])('%j is the name of no stream', text => {
  expect(parseStreamName(text)).toBeUndefined()
})

it('another process reads an answer', async () => {
  const { url } = await serve(rawEndpoint(call => call.result({ late: true })))
  const sent = JSON.stringify({ method: 'POST', body: JSON.stringify(callTool(1, 'any')) })
  const script = `fetch('${url}', ${sent}).then(async answer => console.log(await answer.text()))`
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script])
  expect(stdout).toContain('"late":true')
})

it('the page has them word for word', () => {
  const page = readFileSync('.github/CONTRIBUTING.md', 'utf8')
  const own = readFileSync('spec/helpers/contributing.spec.ts', 'utf8')
  const examples = [...page.matchAll(/```typescript\n([^]*?)```/g)].map(([, code]) => code!)
  expect(examples.filter(code => !own.includes(code))).toEqual([])
  expect(examples).toHaveLength(4)
})
