// Numbers that JavaScript cannot hold, wherever a message is sent on or changed: only what is
// changed has other bytes.

import { describe, expect, it } from '@jest/globals'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { resources } from '../../../lib/resources/index.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { headersFor } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { ANNOUNCED, askingEndpoint, QUICK } from '../hand-off/asking.js'

const NUMBERS = '"account":9007199254740993 , "amount":1.10, "large":1e400'
const HEADERS = headersFor({ version: '2025-11-25' })

/** Posts a text, and gives what the endpoint got of it and what came back. */
async function exchange(
  body: string | Buffer,
  answer: (call: RawCall) => unknown,
  options: McpStreamsOptions = {},
  headers: Record<string, string> = {}
) {
  const endpoint = rawEndpoint(answer)
  const { url } = await serve(endpoint, options)
  const response = await openStream(url, {
    method: 'POST',
    headers: { ...HEADERS, ...headers },
    body
  })
  await response.ended
  return { sent: endpoint.calls[0]?.body ?? '', text: response.text }
}

const json = (text: (id: string) => string) => (call: RawCall) =>
  void call.res
    .setHeader('Content-Type', 'application/json')
    .end(text(JSON.stringify(call.message.id)))
const events = (text: (id: string) => string) => (call: RawCall) => {
  call.open()
  call.write(
    `event: message\ndata: ${text(JSON.stringify(call.message.id)).replaceAll('\n', '\ndata: ')}\n\n`
  )
  call.res.end()
}

describe('a call with resume tokens', () => {
  const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{${NUMBERS}},"_meta":{"resumeToken":null}}}`
  const result = `{${NUMBERS}}`

  it.each([
    ['JSON', json],
    ['an event', events]
  ])('and %s in answer', async (_kind, as) => {
    const { sent, text } = await exchange(
      body,
      as(id => `{"jsonrpc":"2.0","id":${id},"result":${result}}`)
    )
    expect(sent).toContain(`"arguments":{${NUMBERS}}`)
    expect(JSON.parse(sent).params._meta).toBeUndefined()
    expect(text).toBe(`{"jsonrpc":"2.0","id":1,"result":${result}}`)
  })

  it('whose answer speaks of its id twice', async () => {
    const { text } = await exchange(
      body,
      json(id => `{"jsonrpc":"2.0","result":{"id":${id},${NUMBERS}},"id":${id}}`)
    )
    expect(text).toMatch(
      new RegExp(`^{"jsonrpc":"2.0","result":{"id":"[\\w-]{21}",${NUMBERS}},"id":1}$`)
    )
  })

  it('whose answer is the one of a batch, or an error without an id', async () => {
    const batch = await exchange(
      body,
      json(id => `[ {"jsonrpc":"2.0","id":${id},"result":${result}} ]`)
    )
    expect(batch.text).toBe(`{"jsonrpc":"2.0","id":1,"result":${result}}`)
    const error = await exchange(
      body,
      json(() => `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"","data":${result}}}`)
    )
    expect(error.text).toBe(
      `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":${result}}}`
    )
  })

  it('whose progress is reported with the token of its client', async () => {
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","_meta":{"resumeToken":null,"progressToken":7}}}`
    const { text } = await exchange(body, call => {
      call.open()
      call.write(
        `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1.10}}\n\n`
      )
      call.result()
    })
    expect(text).toContain('"params":{"progressToken":7,"progress":1.10}')
  })
})

describe('an answer that is changed', () => {
  const list = (id: string) =>
    `{"jsonrpc":"2.0","id":${id},\n "result":{"resources":[{"uri":"a:b","size":9007199254740993}]}}`
  const marked = list('1').replace('993}', '993,"streamable":true}')
  const options = { resources: resources({ open: () => undefined, streamable: true }) }

  it('in JSON', async () => {
    const body = '{"jsonrpc":"2.0","id":1,"method":"resources/list"}'
    expect((await exchange(body, json(list), options)).text).toBe(marked)
  })

  it('in an event', async () => {
    const body = '{"jsonrpc":"2.0","id":1,"method":"resources/list"}'
    const { text } = await exchange(body, events(list), options)
    expect(text).toContain(`\ndata: ${marked.replace('\n', '\ndata: ')}\n\n`)
  })

  it('for capabilities', async () => {
    const body =
      '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
    const says = (capabilities: string) =>
      `{"jsonrpc":"2.0","id":1,"result":{"max":9007199254740993,"capabilities":{${capabilities}}}}`
    const { text } = await exchange(
      body,
      json(() => says('"x":1.0')),
      options
    )
    expect(text).toBe(says('"x":1.0,"resources":{"stream":true}'))
  })

  it('for hints on the duration of tools', async () => {
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{${NUMBERS}}}`
    const tools = (id: string, more = '') =>
      `{"jsonrpc":"2.0","id":${id},"result":{"tools":[{"name":"a"${more},"max":1.0},{"max":1.0}]}}`
    const hints = { a: { typical: 1 } }
    const { sent, text } = await exchange(body, json(tools), { resumeTokens: { hints } })
    expect(sent).toContain(`"params":{${NUMBERS}}`)
    expect(text).toBe(
      tools('1').replace('"max":1.0},', '"max":1.0,"_meta":{"durationHint":{"typical":1}}},')
    )
  })
})

it('answers to the questions of a call reach the endpoint as they were written', async () => {
  const endpoint = askingEndpoint(async (call, ask) => {
    await Promise.all([ask(7), ask(8)])
    call.result()
  })
  const { url } = await serve(endpoint, QUICK)
  const body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}'
  const opened = await openStream(url, { method: 'POST', headers: ANNOUNCED, body })
  await opened.ended
  const answers = [7, 8].map(
    id => `{"jsonrpc":"2.0","id":${id}, "result":{"content":{${NUMBERS}}}}`
  )
  const headers = { ...ANNOUNCED, 'Content-Type': 'application/json' }
  const last = await openStream(streamUrl(opened, url), {
    method: 'POST',
    headers,
    body: `[${answers.join(' , ')}]`
  })
  await last.ended
  expect(Array.from(endpoint.answers, call => call.body).sort()).toEqual(answers)
})

describe('two numbers that JavaScript cannot tell apart', () => {
  const withArguments = (args: string, meta = '{"resumeToken":null}', id = 1) =>
    `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"arguments":${args},"_meta":${meta}}}`
  const send = async (url: string, body: string, headers: Record<string, string> = {}) => {
    const response = await openStream(url, {
      method: 'POST',
      headers: { ...HEADERS, 'Content-Type': 'application/json', ...headers },
      body
    })
    await response.ended
    return response
  }

  it('make two requests under one key', async () => {
    const endpoint = rawEndpoint(json(() => '{"jsonrpc":"2.0","id":1,"result":{}}'))
    const { url } = await serve(endpoint)
    const key = { 'Idempotency-Key': 'a-key-that-nobody-guesses' }
    const paid = [2, 3, 2].map(last => withArguments(`{"account":900719925474099${last}}`, '{}'))
    const statuses = []
    for (const body of paid) statuses.push((await send(url, body, key)).status)
    expect(statuses).toEqual([200, 409, 200])
    expect(endpoint.calls).toHaveLength(1)
  })

  it.each([
    ['{"account":9007199254740992}', 'parameters-changed'],
    ['{"account":9007199254740993}', undefined],
    ['{ "account" : 9007199254740993 }', undefined]
  ])('make %s another call for a token, or not', async (args, reason) => {
    const endpoint = rawEndpoint(() => undefined)
    const { url } = await serve(endpoint, { resumeTokens: { after: 20 } })
    const first = await send(
      url,
      withArguments(
        '{"account":9007199254740993}',
        '{"resumeToken":null,"progressToken":9007199254740993}'
      )
    )
    const { nextResumeToken } = JSON.parse(first.text).result._meta
    const next = await send(url, withArguments(args, `{"resumeToken":"${nextResumeToken}"}`, 2))
    const { result, error } = JSON.parse(next.text)
    expect(error?.data.reason).toBe(reason)
    expect(result === undefined).toBe(reason !== undefined)
  })
})
